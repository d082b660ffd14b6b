// SPDX-License-Identifier: Apache-2.0
#include "answer/plan_file.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/parallel.hpp"
#include "plansearch/error.hpp"
#include "plansearch/plan_report.hpp"
#include "report/columns.hpp"
#include "report/json_text.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"

namespace plansearch {
namespace {

Format format_by_ending(const std::filesystem::path& path) {
  if (path.extension() == ".csv") return Format::Csv;
  if (path.extension() == ".jsonl") return Format::JsonLines;
  throw InputError({path.string(), 0, 0}, "every plan goes to a .csv or a .jsonl file",
                   "end the name in .csv or .jsonl");
}

}  // namespace

PlanFile::PlanFile(const std::filesystem::path& path, int threads)
    : name_(path.string()), file_(path), format_(format_by_ending(path)), threads_(threads) {}

void PlanFile::write(const QuestionReport& question, const PlanEvaluator& evaluator,
                     std::span<const PlanCandidate> plans) {
  const auto row_of = [&](const PlanCandidate& plan) {
    return plan_row(question, rate_plan(evaluator, whole_plan(evaluator, plan), plan.estimate),
                    RowKind::Collected);
  };
  if (!begun_ && format_ == Format::Csv && !plans.empty()) {
    file_.append(csv_header(row_of(plans.front())));
    begun_ = true;
  }
  std::vector<std::string> lines(plans.size());
  parallel_for(plans.size(), threads_, [&](std::size_t i) {
    const nlohmann::ordered_json row = row_of(plans[i]);
    lines[i] = format_ == Format::Csv ? csv_line(row) : json_text(row) + "\n";
  });
  for (const std::string& line : lines) file_.append(line);
}

void PlanFile::add(const SearchCounts& counts) {
  counts_.evaluated += counts.evaluated;
  counts_.pruned += counts.pruned;
  counts_.unvisited += counts.unvisited;
  for (std::size_t i = 0; i < kObstacleCount; ++i) counts_.rejected[i] += counts.rejected[i];
}

std::string PlanFile::conclude() {
  file_.commit();
  std::string text = fmt::format("{}: {} plans", name_, grouped(counts_.evaluated));
  if (counts_.pruned > 0) {
    text += fmt::format("; not in it: {} that bounds ruled out unpriced (--exhaustive prices them)",
                        grouped(counts_.pruned));
  }
  if (counts_.rejected_total() > 0) {
    text += fmt::format("; {} rejected", grouped(counts_.rejected_total()));
  }
  if (counts_.unvisited > 0) {
    text += fmt::format("; {} not priced", grouped(counts_.unvisited));
  }
  return text;
}

}  // namespace plansearch
