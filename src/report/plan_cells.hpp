// SPDX-License-Identifier: Apache-2.0
// How the fields of a plan look in tables. One place for every view.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plansearch/plan_report.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// A part of a breakdown: its key in JSON (a path), its name in tables.
template <typename Q>
struct BreakdownPart {
  std::string key;
  std::string name;
  Q value;
};
[[nodiscard]] std::vector<BreakdownPart<Seconds>> parts_of(const StepTimeBreakdown& step);
[[nodiscard]] std::vector<BreakdownPart<Bytes>> parts_of(const MemoryBreakdown& memory);

/// The line that names the evidence of an answer; files are "profile NAME (7 measured, ...)".
[[nodiscard]] std::string evidence_text(const std::vector<std::string>& files);
/// "17.2 %"
[[nodiscard]] std::string share_text(double share);
/// "31.2 of 40 GiB"
[[nodiscard]] std::string memory_of(Bytes used, Bytes capacity);
/// "31 %", "<1 %"
[[nodiscard]] std::string risk_text(const PlanReport& plan);
/// 1234567 -> "1.23 M"
[[nodiscard]] std::string count_text(double count);
/// 1234567 -> "1,234,567"; from 1e15 on two digits: "9.0e+18"
[[nodiscard]] std::string grouped(std::int64_t count);
/// Values of the stages in order, equal neighbours once: "4/2x7", "full/none x7".
[[nodiscard]] std::string by_stage(const std::vector<std::string>& values);
[[nodiscard]] std::string layers_by_stage(const PlanSummary& plan);
/// `cell` of a plan; by_stage for stages that differ in it.
[[nodiscard]] std::string across_stages(const PlanSummary& plan,
                                        const std::function<std::string(const PlanDegrees&)>& cell);
/// Whether it holds for the degrees of the plan or of any of its stages.
[[nodiscard]] bool any_stage(const PlanSummary& plan,
                             const std::function<bool(const PlanDegrees&)>& holds);
/// Tensor degree: "8", or "2x4x1" for a grid, with "+sp" under sequence parallelism.
[[nodiscard]] std::string tensor_cell(const PlanDegrees& plan);
/// " 2x2" behind the tensor degree of a plan with operators in steps over such squares, " ring".
[[nodiscard]] std::string steps_cell(const PlanSummary& plan);
/// Context degree: "4", "4u" for Ulysses, "4g" where keys and values are gathered.
[[nodiscard]] std::string context_cell(const PlanDegrees& plan);
/// "none", "full", or "first 3" layers of every chunk
[[nodiscard]] std::string recompute_cell(const PlanDegrees& plan);
/// "1f1b", "interleaved", or "-" without a pipeline.
[[nodiscard]] std::string schedule_cell(const PlanDegrees& plan);

/// The two heaviest reasons, and the features of the framework that the plan uses.
[[nodiscard]] std::string reasons_cell(const PlanReport& plan);

/// "dp 8, pp 4, tp 2, ..." with only the degrees above one; "tp 4/2/2" where stages differ.
[[nodiscard]] std::string short_plan(const PlanSummary& plan);

/// The evidence of the profile, of the framework and of the site.
[[nodiscard]] std::vector<std::string> evidence_of(const Problem& problem);
[[nodiscard]] std::string evidence_line(const Problem& problem);

}  // namespace plansearch
