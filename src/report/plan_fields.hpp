// SPDX-License-Identifier: Apache-2.0
// One list of the fields of a plan. JSON, JSON lines, CSV, the ranking, the ladder and the
// comparison read it; the schema of the answer is tested against it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/report.hpp"
#include "report/columns.hpp"
#include "report/text_table.hpp"

namespace plansearch {

/// A plan and its question, as the functions of a field see them.
struct ShownPlan {
  const QuestionReport& question;
  const PlanReport& plan;
  std::string_view memory_note{};  ///< text behind its memory in tables: " (!)"
};

/// Tables with a row per plan.
enum class PlanTable : std::uint8_t { Ranking, Ladder, Comparison };
inline constexpr int kNotShown = -1;

struct PlanField {
  Column<ShownPlan> column;  ///< without a key: not in JSON; value absent(): left out
  /// CSV name; of an object, the prefix of the names of its members. Absent: not in CSV.
  std::optional<std::string_view> csv{};
  /// By PlanTable: TextColumn::dispensable in that table, or kNotShown.
  std::array<int, 3> in{kNotShown, kNotShown, kNotShown};
  /// Whether the column says something about a plan; it is dropped where it does so for none.
  std::function<bool(const PlanReport&)> tells{};
  bool relative = false;  ///< it compares the plan with others of its ranking
};
[[nodiscard]] const std::vector<PlanField>& plan_fields();

/// The columns of a table, in the order of the list; those that say nothing of any plan are
/// dropped.
[[nodiscard]] Columns<ShownPlan> plan_columns(PlanTable table,
                                              std::span<const ShownPlan> plans = {});

/// All fields with a key, or only those of `keys`.
[[nodiscard]] nlohmann::ordered_json plan_json(const QuestionReport& question,
                                               const PlanReport& plan,
                                               std::span<const std::string_view> keys = {});

/// Ranked rows have the relative fields; rows of a collection of plans do not.
enum class RowKind { Ranked, Collected };
/// A plan as one flat row that identifies its question; degrees are lists where stages differ.
[[nodiscard]] nlohmann::ordered_json plan_row(const QuestionReport& question,
                                              const PlanReport& plan, RowKind kind);

/// Model, machine, framework, precision, sequence, batch, accelerators.
[[nodiscard]] nlohmann::ordered_json identity_json(const QuestionReport& question);
/// "alpa (unvalidated)": a framework of which no measured step was compared with predictions.
[[nodiscard]] std::string framework_text(const QuestionReport& question);
/// The line above an answer about more accelerators than the machine has; empty for no more.
[[nodiscard]] std::string beyond_line(const QuestionReport& question);
/// "faster, but tight: tp 2 takes 37.9 s, ...", of the tight plan beside the ranking; else empty.
[[nodiscard]] std::string tight_text(const SearchReport& report);

[[nodiscard]] nlohmann::ordered_json to_json(const SearchReport& report);
[[nodiscard]] nlohmann::ordered_json to_json(const PlanSummary& plan);

/// The parts of a plan that are objects or lists of objects.
[[nodiscard]] nlohmann::ordered_json step_json(const StepTimeBreakdown& step);
[[nodiscard]] nlohmann::ordered_json memory_json(const MemoryBreakdown& memory);
[[nodiscard]] nlohmann::ordered_json communication_json(
    const std::vector<PricedCommunication>& lines);
[[nodiscard]] nlohmann::ordered_json stages_json(const std::vector<StageReport>& stages);
[[nodiscard]] nlohmann::ordered_json passes_json(const std::vector<PassReport>& passes);
[[nodiscard]] nlohmann::ordered_json operators_json(const std::vector<OperatorReport>& operators);
[[nodiscard]] nlohmann::ordered_json peak_json(const PeakReport& peak);
[[nodiscard]] nlohmann::ordered_json hidden_json(const std::vector<HiddenMessage>& messages);
[[nodiscard]] nlohmann::ordered_json redistributions_json(const std::vector<Redistribution>& all);

/// The ranked plans, without variants of others.
[[nodiscard]] TextTable plan_table(const SearchReport& report);
/// Meanings of the short names of those columns, for a table of that many characters.
[[nodiscard]] std::string plan_legend(const std::vector<PlanReport>& plans, const TextTable& table,
                                      int columns);
/// That table with its legend, and plans beyond the framework or the accepted risk.
[[nodiscard]] std::string ranking_table(const SearchReport& report, int columns);
/// The best plan of every size.
[[nodiscard]] TextTable ladder_rows(const std::vector<LadderRung>& ladder);
/// Plans that need a little more memory than there is.
[[nodiscard]] TextTable miss_table(const std::vector<NearMissReport>& misses);
/// Published plans of the question, priced.
[[nodiscard]] TextTable published_table(const std::vector<PublishedReport>& published);
/// Stages; runs of those that are alike but for their memory are one row.
[[nodiscard]] TextTable stage_table(const std::vector<StageReport>& stages);
[[nodiscard]] TextTable communication_table(const std::vector<PricedCommunication>& lines);
/// Tensors on the device when it is fullest.
[[nodiscard]] TextTable peak_table(const PeakReport& peak);

}  // namespace plansearch
