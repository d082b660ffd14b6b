// SPDX-License-Identifier: Apache-2.0
// A plan as one flat row, with everything that tells it from the rows of other questions: the
// columns of CSV, the keys of JSON lines.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plansearch/report.hpp"

namespace plansearch {

/// What a plan belongs to: model, machine, framework, precision, sequence, batch, accelerators.
/// "alpa (unvalidated)": a framework of which no measured step was compared with predictions.
[[nodiscard]] std::string framework_text(const QuestionReport& question);
/// The line above an answer about more accelerators than there are; empty for no more.
[[nodiscard]] std::string beyond_line(const QuestionReport& question);
[[nodiscard]] nlohmann::ordered_json identity_json(const QuestionReport& question);

/// There are no parts of bytes.
[[nodiscard]] std::int64_t whole_bytes(Bytes bytes);

/// Rows of a ranking say their rank and what they tie with; those of a collection of plans do not.
enum class RowKind { Ranked, Collected };

/// Keys by column; degrees are lists where the stages of a plan differ.
[[nodiscard]] nlohmann::ordered_json plan_row(const QuestionReport& question,
                                              const PlanReport& plan, RowKind kind);

[[nodiscard]] nlohmann::ordered_json to_json(const PlanSummary& plan);
[[nodiscard]] nlohmann::ordered_json to_json(const PlanReport& plan);
/// The same with what training on the tokens of the question takes, where it asks.
[[nodiscard]] nlohmann::ordered_json plan_json(const QuestionReport& question,
                                               const PlanReport& plan);
[[nodiscard]] nlohmann::ordered_json to_json(const SearchReport& report);

}  // namespace plansearch
