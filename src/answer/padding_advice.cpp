// SPDX-License-Identifier: Apache-2.0
#include "answer/make_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "report/plan_cells.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

/// Vectors of 16 bytes in every format down to 4 bits, and the usual multiple of vocabularies.
constexpr std::int64_t kElements = 32;
constexpr std::int64_t kUsual = 64;
/// Savings below this share of the step are not worth another shape.
constexpr double kWorth = 0.005;

/// Rows of zeros change nothing that these widths feed.
bool can_be_padded(DimRole role) {
  return role == DimRole::Vocab || role == DimRole::Ffn || role == DimRole::ExpertFfn;
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
      const bool carries =
          std::find(op.loop.begin(), op.loop.end(), static_cast<DimId>(dimension)) != op.loop.end();
      if (carries && traits(op).is_product()) {
        names.push_back(fmt::format("{}: {}", block.name, op.name));
      }
    }
  }
  return names;
}

}  // namespace

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
    if (!can_be_padded(dimensions[d].role) || wide == extent) continue;
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
