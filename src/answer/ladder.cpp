// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "answer/search_answer.hpp"
#include "plansearch/search.hpp"
#include "question/gpu_count.hpp"
#include "report/plan_cells.hpp"

namespace plansearch {
namespace {

/// Throughput per GPU, over that of the smallest size that runs, below which a size is not chosen.
constexpr double kWorthwhileEfficiency = 0.7;

Seconds step_of(const LadderRung& rung) {
  return rung.report.plans.front().estimate.step.total();
}

void fill_speedups(std::vector<LadderRung>& rungs) {
  const LadderRung* first = nullptr;
  for (LadderRung& rung : rungs) {
    if (rung.report.plans.empty()) continue;
    if (first == nullptr) first = &rung;
    rung.speedup = step_of(*first) / step_of(rung);
    rung.efficiency = rung.speedup * first->report.question.gpus / rung.report.question.gpus;
  }
}

/// A ladder that was cut short knows nothing of the sizes it did not come to.
void choose(LadderReport& ladder, bool cut_short) {
  ladder.chosen = ladder.rungs.size() - 1;
  ladder.choice = cut_short
                      ? "cut short before anything was found that fits; the last size in full:"
                      : "nothing fits at any size; the largest one in full:";
  for (std::size_t i = 0; i < ladder.rungs.size(); ++i) {
    const LadderRung& rung = ladder.rungs[i];
    if (rung.report.plans.empty() || rung.efficiency < kWorthwhileEfficiency) continue;
    ladder.chosen = i;
    ladder.choice = fmt::format(
        "best plans on {} GPUs, the largest size{} that keeps {:.0f} % of the throughput per GPU "
        "of the smallest that runs (--gpus N for another):",
        rung.report.question.gpus, cut_short ? " of those there was time for" : "",
        kWorthwhileEfficiency * 100.0);
  }
}

/// The smallest size than which no larger one is faster by more than a tie.
void note_ceiling(const ResolvedQuestion& asked, LadderReport& ladder) {
  const double tie = tied_ratio(asked.problem.framework->constants.paired_sigma);
  const LadderRung* ceiling = nullptr;
  Seconds best;  // of the larger sizes
  for (auto rung = ladder.rungs.rbegin(); rung != ladder.rungs.rend(); ++rung) {
    if (rung->report.plans.empty()) continue;
    if (ceiling != nullptr && step_of(*rung) > best * tie) break;
    best = ceiling == nullptr ? step_of(*rung) : std::min(best, step_of(*rung));
    ceiling = &*rung;
  }
  if (ceiling == nullptr || ceiling == &ladder.rungs.back()) return;
  ladder.ceiling = fmt::format("no gain above {} GPUs: no larger size is faster by more than a tie",
                               grouped(ceiling->report.question.gpus));
}

}  // namespace

std::vector<int> ladder_sizes(const Cluster& cluster) {
  const int whole = cluster.accelerators();
  std::vector<int> sizes;
  const int unit = cluster.nodes() == 1 ? 1 : cluster.accelerators_per_node;
  for (std::int64_t size = unit; size < whole; size *= 2) sizes.push_back(static_cast<int>(size));
  sizes.push_back(whole);
  return sizes;
}

std::variant<LadderReport, Infeasible> climb_ladder(const ResolvedQuestion& asked,
                                                    SearchSession& session) {
  LadderReport ladder;
  std::optional<Infeasible> refusal;  // pinned degrees need not divide every size
  std::vector<int> sizes = asked_sizes(asked.request, *asked.problem.cluster);
  if (sizes.empty()) sizes = ladder_sizes(*asked.problem.cluster);
  for (const int gpus : sizes) {
    if (session.stopped()) break;
    auto found = session.report(asked, gpus, fmt::format("{} GPUs", gpus), SideQuestions::OfPlans);
    if (auto* infeasible = std::get_if<Infeasible>(&found)) {
      refusal = std::move(*infeasible);
    } else {
      ladder.rungs.push_back({std::get<SearchReport>(std::move(found))});
    }
  }
  if (ladder.rungs.empty() && refusal) return *std::move(refusal);
  fill_speedups(ladder.rungs);
  choose(ladder, session.stopped());
  if (!session.stopped()) note_ceiling(asked, ladder);
  SearchReport& chosen = ladder.rungs[ladder.chosen].report;
  if (chosen.plans.empty() && !session.stopped()) {
    const int gpus = chosen.question.gpus;
    chosen =
        std::get<SearchReport>(session.report(asked, gpus, "nearest misses", SideQuestions::All));
  }
  return ladder;
}

}  // namespace plansearch
