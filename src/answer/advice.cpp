// SPDX-License-Identifier: Apache-2.0
#include "answer/search_answer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>

#include "answer/make_report.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "plansearch/error.hpp"
#include "plansearch/search.hpp"
#include "question/gpu_count.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

/// A number of GPUs may be rounded by half of this share, a batch by twice of it.
constexpr std::int64_t kRounding = 20;
/// A batch is awkward when it shares so many times less with the GPUs than a neighbour would.
constexpr std::int64_t kAwkward = 4;
/// A tight plan, or another one than the given, is worth a line where it is so many times as fast.
constexpr double kMuchFaster = 1.25;
/// Work of the device, as a share of the step, below which fewer GPUs are tried.
constexpr double kIdle = 0.5;

std::int64_t odd_part(std::int64_t number) {
  while (number % 2 == 0) number /= 2;
  return number;
}

/// The GPUs of a replica where there are as many replicas as batch and GPUs allow.
std::int64_t left_to_cut(std::int64_t gpus, std::int64_t batch) {
  return gpus / std::gcd(gpus, batch);
}

/// The batches next to this one that divide best over the GPUs; none where it divides well itself.
/// Powers of two cut a network with less loss than other factors do.
std::vector<std::int64_t> better_dividing(std::int64_t gpus, std::int64_t batch) {
  const std::int64_t own = left_to_cut(gpus, batch);
  std::vector<std::int64_t> lefts;
  for (std::int64_t left = 1; left <= gpus; ++left) {
    if (gpus % left != 0) continue;
    const bool even = odd_part(left) < odd_part(own);
    const bool less = odd_part(left) == odd_part(own) && left * kAwkward <= own;
    if (even || less) lefts.push_back(left);
  }
  std::ranges::stable_sort(lefts, {}, odd_part);
  for (const std::int64_t left : lefts) {
    const std::int64_t unit = gpus / left;
    std::vector<std::int64_t> near{batch / unit * unit, (batch / unit + 1) * unit};
    std::erase_if(near, [&](std::int64_t other) {
      return other == 0 || std::abs(other - batch) * kRounding > 2 * batch;
    });
    if (!near.empty()) return near;
  }
  return {};
}

/// Half the GPUs, and half of those, as long as they are no slower.
std::optional<std::string> fewer_gpus(const ResolvedQuestion& asked, const SearchReport& report,
                                      SearchSession& session) {
  const PlanReport& first = report.plans.front();
  const StepTimeBreakdown& step = first.estimate.step;
  if ((step.compute + step.recompute) / (step.total() - step.site) >= kIdle ||
      !asked.request.degrees.empty()) {
    return std::nullopt;
  }
  const double tie = tied_ratio(asked.problem.framework->constants.paired_sigma);
  std::optional<std::string> found;
  for (int gpus = report.question.gpus; gpus % 2 == 0;) {
    gpus /= 2;
    if (bad_gpu_count(*asked.problem.cluster, gpus)) break;
    const auto best = session.best(asked, gpus, fmt::format("{} GPUs", gpus));
    if (!best || best->estimate.step.total() > step.total() * tie) break;
    if (gpus > asked.problem.cluster->accelerators()) continue;
    found = fmt::format("use {}: {} GPUs are not slower, {} takes {}", grouped(gpus), grouped(gpus),
                        short_plan(best->plan), to_text(best->estimate.step.total()));
  }
  return found;
}

/// The batch that is faster per sequence, next to one that divides badly over the GPUs.
std::optional<std::string> better_batch(const ResolvedQuestion& asked, const SearchReport& report,
                                        SearchSession& session) {
  const int gpus = report.question.gpus;
  const std::int64_t batch = report.question.global_batch;
  const PlanReport& first = report.plans.front();
  double most = tied_ratio(asked.problem.framework->constants.paired_sigma);
  std::string found;
  for (const std::int64_t other : better_dividing(gpus, batch)) {
    ResolvedQuestion changed = asked;  // the rest is the same, and stays known
    changed.request.batch = other;
    changed.problem.global_batch = other;
    const auto best = session.best(changed, gpus, fmt::format("batch {}", other));
    if (!best || best->admitted != report.admitted) continue;
    const Seconds step = best->estimate.step.total();
    const double sequences = static_cast<double>(other) / static_cast<double>(batch);
    const double gain = first.estimate.step.total() * sequences / step;
    if (gain <= most) continue;
    most = gain;
    found = fmt::format("--batch {} takes {} ({} MFU)", other, to_text(step),
                        share_text(first.mfu * gain));
  }
  if (found.empty()) return std::nullopt;
  return fmt::format("batch {} = {} leaves a factor of {} of {} GPUs to cut the network by: {}",
                     grouped(batch), factors_text(batch), grouped(left_to_cut(gpus, batch)),
                     grouped(gpus), found);
}

/// Numbers of GPUs near one that no plan divides, with their best plans.
std::vector<std::string> near_gpu_counts(const ResolvedQuestion& asked, int gpus,
                                         SearchSession& session) {
  std::vector<std::string> near;
  std::int64_t unit = 1;
  while (unit * 2 * kRounding <= gpus) unit *= 2;
  const auto try_size = [&](std::int64_t other) {
    const int count = static_cast<int>(other);
    const Cluster& cluster = *asked.problem.cluster;
    const bool there = other <= cluster.accelerators() && !bad_gpu_count(cluster, other);
    if (count == gpus || !there) return;
    const auto best = session.best(asked, count, fmt::format("{} GPUs", count));
    if (!best) return;
    near.push_back(fmt::format("on {} GPUs {} takes {} per step", grouped(other),
                               short_plan(best->plan), to_text(best->estimate.step.total())));
  };
  session.ask_aside(near, "sizes near this one", [&] {
    for (const std::int64_t other : {gpus / unit * unit, (gpus / unit + 1) * unit}) try_size(other);
  });
  return near.empty() ? least_line(asked, session) : near;
}

/// Vectors of 16 bytes in every format down to 4 bits, and the usual multiple of vocabularies.
constexpr std::int64_t kElements = 32;
constexpr std::int64_t kUsual = 64;
/// Savings below this share of the step are not worth another shape.
constexpr double kWorth = 0.005;

/// Whether rows of zeros change nothing that a width feeds: the mean of a norm they do.
bool can_be_padded(const Network& network, std::size_t dimension) {
  const DimRole role = network.dimensions[dimension].role;
  if (role == DimRole::Vocab || role == DimRole::ExpertFfn) return true;
  return role == DimRole::Ffn && std::ranges::none_of(network.blocks, [&](const Block& block) {
           return std::ranges::any_of(block.operators, [&](const Operator& op) {
             return traits(op).statistics.over.contains(role) &&
                    contains(op.loop, static_cast<DimId>(dimension));
           });
         });
}

std::int64_t rounded_up(std::int64_t extent, std::int64_t unit) {
  return (extent + unit - 1) / unit * unit;
}

/// The step with one dimension as wide as that; absent when the plan no longer runs.
std::optional<Seconds> padded_step(const Problem& problem, const ParallelPlan& plan,
                                   std::size_t dimension, std::int64_t extent) {
  auto network = std::make_shared<Network>(*problem.network);
  network->dimensions[dimension].extent = extent;
  Problem padded = problem;
  padded.network = std::move(network);
  const Evaluation evaluation = PlanEvaluator(std::move(padded)).evaluate(plan);
  if (const auto* estimate = std::get_if<Estimate>(&evaluation)) return estimate->step.total();
  const auto& refused = std::get<InfeasiblePlan>(evaluation);
  if (!refused.estimate) return std::nullopt;
  return refused.estimate->step.total();
}

/// The products that carry a dimension: "head: logits".
std::vector<std::string> products_of(const Network& network, std::size_t dimension) {
  std::vector<std::string> names;
  for (const Block& block : network.blocks) {
    for (const Operator& op : block.operators) {
      const bool carries = contains(op.loop, static_cast<DimId>(dimension));
      if (carries && traits(op).is_product()) {
        names.push_back(fmt::format("{}: {}", block.name, op.name));
      }
    }
  }
  return names;
}

}  // namespace

std::string factors_text(std::int64_t number) {
  std::string text;
  const auto add = [&](std::int64_t prime, int power) {
    if (!text.empty()) text += " x ";
    text += power == 1 ? fmt::format("{}", prime) : fmt::format("{}^{}", prime, power);
  };
  for (std::int64_t prime = 2; prime * prime <= number; ++prime) {
    int power = 0;
    for (; number % prime == 0; number /= prime) ++power;
    if (power > 0) add(prime, power);
  }
  if (number > 1 || text.empty()) add(number, 1);
  return text;
}

std::vector<std::string> find_advice(const ResolvedQuestion& asked, const SearchReport& report,
                                     OtherSizes sizes, SearchSession& session) {
  std::vector<std::string> advice;
  if (report.plans.empty() || session.stopped()) return advice;
  const bool both = sizes == OtherSizes::Yes;
  session.ask_aside(advice, both ? "other batches and sizes" : "other batches", [&] {
    if (auto text = better_batch(asked, report, session)) advice.push_back(*std::move(text));
    auto text = both ? fewer_gpus(asked, report, session) : std::nullopt;
    if (text) advice.push_back(*std::move(text));
  });
  return advice;
}

std::vector<std::string> row_advice(const ResolvedQuestion& asked, const SearchReport& report,
                                    SearchSession& session) {
  std::vector<std::string> advice = find_advice(asked, report, OtherSizes::No, session);
  if (report.faster_tight && report.plans.front().estimate.step.total() >
                                 report.faster_tight->estimate.step.total() * kMuchFaster) {
    advice.push_back(tight_text(report));
  }
  return advice;
}

std::vector<std::string> missed_by(const ResolvedQuestion& asked, const QuestionReport& question,
                                   const PlanReport& own, const PlanSummary& other, Seconds step) {
  std::vector<std::string> missed;
  const double times = own.estimate.step.total() / step;
  if (times > kMuchFaster) {
    missed.push_back(fmt::format(
        "{} takes {} on these GPUs, {:.2f} x as fast as this plan:\n  {}", short_plan(other),
        to_text(step), times,
        predict_command(asked.request, with_gpus(asked, question.gpus), other.degrees)));
  }
  const Bytes idle = question.memory_capacity - own.estimate.memory.total();
  if (own.plan.degrees.recompute == Recompute::Full && idle > question.memory_capacity * 0.5) {
    missed.push_back(fmt::format("whole layers are recomputed while {} of {} lie idle: --recompute",
                                 to_text(idle), to_text(question.memory_capacity)));
  }
  return missed;
}

std::vector<std::string> missed_by(const ResolvedPlan& given, const SearchReport& report,
                                   SearchSession& session) {
  std::vector<std::string> missed;
  if (given.asked.decides_plans()) return missed;
  ResolvedQuestion open = given.asked;
  open.request.degrees = {};
  open.request.limits = {};
  session.ask_aside(missed, "plans beside this one", [&] {
    const auto best = session.best(open, report.question.gpus, "looking for a faster plan");
    if (!best) return;
    missed = missed_by(given.asked, report.question, report.plans.front(), PlanSummary(best->plan),
                       best->estimate.step.total());
  });
  return missed;
}

void refuse_question(const Infeasible& infeasible, const std::vector<std::string>& near) {
  std::string hint =
      "dp x pp x cp x tp is the number of GPUs, and dp x micro-batch divides the batch";
  if (!near.empty()) hint = fmt::format("{}", fmt::join(near, "; "));
  throw InputError({}, infeasible.detail, hint);
}

SearchReport report_or_refuse(const ResolvedQuestion& asked, int gpus, const std::string& label,
                              SideQuestions beside, SearchSession& session) {
  auto found = session.report(asked, gpus, label, beside);
  if (const auto* infeasible = std::get_if<Infeasible>(&found)) {
    std::vector<std::string> near = near_gpu_counts(asked, gpus, session);
    for (std::string& other : find_remedies(asked, gpus, OtherSizes::No, session)) {
      if (near.size() < 3) near.push_back(std::move(other));
    }
    refuse_question(*infeasible, near);
  }
  return std::get<SearchReport>(std::move(found));
}

std::optional<std::string> padding_advice(const Problem& problem, const ParallelPlan& plan,
                                          Seconds step) {
  std::int64_t slices = 1;
  for (const Transform& transform : plan.transforms) {
    slices = std::max<std::int64_t>(slices, transform.degrees.tensor());
  }
  const std::int64_t unit = std::max(kUsual, kElements * slices);
  const std::vector<Dimension>& dimensions = problem.network->dimensions;
  std::optional<std::string> best;
  double most = kWorth;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    const std::int64_t extent = dimensions[d].extent;
    const std::int64_t wide = rounded_up(extent, unit);
    if (wide == extent || !can_be_padded(*problem.network, d)) continue;
    const auto padded = padded_step(problem, plan, d, wide);
    if (!padded || 1.0 - *padded / step < most) continue;
    most = 1.0 - *padded / step;
    best = fmt::format(
        "{} {} leaves rows that are not multiples of 16 bytes to {}: padded to {} the step takes "
        "{} less",
        dimensions[d].name, grouped(extent), fmt::join(products_of(*problem.network, d), ", "),
        grouped(wide), share_text(most));
  }
  return best;
}

}  // namespace plansearch
