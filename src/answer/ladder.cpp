// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>
#include <optional>
#include <utility>

#include "answer/search_answer.hpp"
#include "base/units.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/search.hpp"
#include "question/gpu_count.hpp"
#include "question/training_task.hpp"
#include "report/plan_cells.hpp"

namespace plansearch {
namespace {

/// Throughput per GPU, over that of the best size, below which a size is not chosen.
constexpr double kWorthwhileEfficiency = 0.7;

Seconds step_of(const LadderRung& rung) {
  return rung.report.plans.front().estimate.step.total();
}

void fill_speedups(std::vector<LadderRung>& rungs) {
  const LadderRung* first = nullptr;
  double most = 0.0;  // work of a GPU
  for (LadderRung& rung : rungs) {
    if (rung.report.plans.empty()) continue;
    if (first == nullptr) first = &rung;
    rung.speedup = step_of(*first) / step_of(rung);
    rung.efficiency = rung.speedup * first->report.question.gpus / rung.report.question.gpus;
    most = std::max(most, rung.efficiency);
  }
  for (LadderRung& rung : rungs) rung.efficiency /= std::max(most, 1e-300);
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
        "of the best size (--gpus N for another):",
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

namespace {

/// The GPUs that pinned degrees take together, by which every size is divisible.
std::int64_t pinned_unit(const PinnedDegrees& pinned) {
  constexpr std::array kCut{Degree::TensorIn, Degree::TensorOut, Degree::TensorDepth,
                            Degree::Context, Degree::Data};
  const auto ranks = [&](Degree degree) -> std::int64_t { return pinned.get(degree).value_or(1); };
  std::int64_t stage = 1;
  for (const Degree degree : kCut) stage *= ranks(degree);
  const std::int64_t experts = ranks(Degree::Expert) * ranks(Degree::ExpertTensor);
  return ranks(Degree::Pipeline) * std::lcm(stage, experts);
}

/// Every size that the machine can give and the degrees divide, ascending.
std::vector<int> possible_sizes(const ResolvedQuestion& asked, int above) {
  const Cluster& cluster = *asked.problem.cluster;
  const std::int64_t unit = pinned_unit(asked.request.degrees);
  std::vector<int> sizes;
  for (std::int64_t size = unit; size <= cluster.accelerators(); size += unit) {
    if (size > above && !bad_gpu_count(cluster, size)) sizes.push_back(static_cast<int>(size));
  }
  return sizes;
}

}  // namespace

std::vector<int> ladder_sizes(const ResolvedQuestion& asked) {
  const Cluster& cluster = *asked.problem.cluster;
  const std::int64_t pinned = pinned_unit(asked.request.degrees);
  if (!is_tuning(asked.request) && pinned == 1) return ladder_sizes(cluster);
  const std::int64_t most = is_tuning(asked.request)
                                ? std::max<std::int64_t>(asked.problem.global_batch, pinned)
                                : cluster.accelerators();
  std::vector<int> sizes;
  const std::vector<int> possible = possible_sizes(asked, 0);
  for (const int size : possible) {
    const bool next = sizes.empty() || size >= 2 * static_cast<std::int64_t>(sizes.back());
    if (next && (size <= most || sizes.empty())) sizes.push_back(size);
  }
  return sizes.empty() ? ladder_sizes(cluster) : sizes;
}

std::optional<LeastSize> least_gpus(const ResolvedQuestion& asked, int above,
                                    SearchSession& session, int enough) {
  std::vector<int> possible = possible_sizes(asked, above);
  if (enough > 0) {
    std::erase_if(possible, [&](int size) { return size >= enough; });
    possible.push_back(enough);
  }
  std::vector<int> sizes;  // those that have plans, as far as they are needed
  auto is_there = [&, looked = std::size_t{0}](std::size_t at) mutable {
    for (; sizes.size() <= at && looked < possible.size(); ++looked) {
      if (session.has_plans(asked, possible[looked])) sizes.push_back(possible[looked]);
    }
    return sizes.size() > at;
  };
  int least = 0;
  const auto fits = [&](std::size_t at) {
    const bool does = session.fits(asked, sizes[at], fmt::format("{} GPUs", sizes[at]));
    if (does) least = sizes[at];
    return does;
  };
  const auto of_least = [&]() -> std::optional<LeastSize> {
    auto best = session.best(asked, least, fmt::format("{} GPUs", least), MemoryFit::Fits);
    return best ? std::optional(LeastSize{least, *std::move(best)}) : std::nullopt;
  };
  std::size_t low = 0, high = 0;  // sizes before `low` do not fit
  if (enough > 0) {
    while (is_there(high + 1)) ++high;
  } else {
    for (std::int64_t wanted = 2 * std::int64_t{above}; least == 0;
         wanted = 2 * std::int64_t{sizes[high]}) {
      while (is_there(high) && sizes[high] < wanted) ++high;
      if (high == sizes.size()) break;
      if (!fits(high)) low = high + 1;
    }
    if (least == 0 && low < sizes.size() && fits(sizes.size() - 1)) high = sizes.size() - 1;
    constexpr std::size_t kFew = 32;  // all are tried: a larger size may divide the batch worse
    for (std::size_t at = 0; least == 0 && sizes.size() <= kFew && at < sizes.size(); ++at) {
      if (fits(at)) return of_least();
    }
    if (least == 0) return std::nullopt;
  }
  constexpr std::size_t kFewBetween = 8;  // in order: the next size may divide the batch worse
  while (high - low <= kFewBetween && low < high) {
    if (fits(low++)) return of_least();
  }
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (fits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (least == 0 && !fits(high)) return std::nullopt;
  return of_least();
}

std::vector<std::string> least_line(const ResolvedQuestion& asked, SearchSession& session,
                                    int above, int enough) {
  std::vector<std::string> lines;
  session.ask_aside(lines, "sizes for the least number of GPUs", [&] {
    const auto least = least_gpus(asked, above, session, enough);
    if (!least) return;
    lines.push_back(fmt::format("the least that trains this model: {} GPU{}; {} takes {} per step",
                                grouped(least->gpus), least->gpus == 1 ? "" : "s",
                                short_plan(least->best.plan),
                                to_text(least->best.estimate.step.total())));
  });
  return lines;
}

namespace {

/// The largest rung before the first that does, and that one; 0: there is none.
std::pair<int, int> around_the_least(const LadderReport& ladder) {
  std::pair<int, int> around{0, 0};
  for (const LadderRung& rung : ladder.rungs) {
    const bool does = !rung.report.plans.empty() && rung.report.admitted == MemoryFit::Fits;
    (does ? around.second : around.first) = rung.report.question.gpus;
    if (does) break;
  }
  return around;
}

}  // namespace

std::variant<LadderReport, Infeasible> climb_ladder(const ResolvedQuestion& asked,
                                                    SearchSession& session) {
  LadderReport ladder;
  std::optional<Infeasible> refusal;  // pinned degrees need not divide every size
  std::vector<int> sizes = asked_sizes(asked.request, *asked.problem.cluster);
  if (sizes.empty()) sizes = ladder_sizes(asked);
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
  for (const LadderRung& rung : ladder.rungs) {
    if (session.stopped() || &rung.report == &chosen || rung.report.plans.empty()) continue;
    for (const std::string& line : row_advice(asked, rung.report, session)) {
      chosen.advice.push_back(
          fmt::format("on {} GPUs: {}", grouped(rung.report.question.gpus), line));
    }
  }
  if (!session.stopped()) {
    const auto [above, enough] = around_the_least(ladder);
    std::ranges::move(least_line(asked, session, above, enough), std::back_inserter(chosen.advice));
  }
  if (chosen.plans.empty() && !session.stopped()) {
    const int gpus = chosen.question.gpus;
    chosen =
        std::get<SearchReport>(session.report(asked, gpus, "nearest misses", SideQuestions::All));
  }
  return ladder;
}

}  // namespace plansearch
