// SPDX-License-Identifier: Apache-2.0
// Computes: p10 and p90 of a step time around its prediction; the spread of the ratio of two steps
//           on one machine of which a value was changed.
// Source: residual quantiles of kernel and link curves (data files), residuals of published runs
//         per framework, spread between sites (docs/validation.md).
// Assumes: log-normal, independent errors; a curve without residual is twice as wrong as a fitted
//          one, and so is the curve of another kind of operator; a framework that no run was compared
//          with and products of another chip add a deviation of their own; kernels that are
//          fractions of another architecture's are wrong alike, as chips that were left out are;
//          stragglers slow a step in proportion to the logarithm of the nodes, independently of the
//          rest: their 90th percentile and that of all errors add in quadrature.
// Units: ratios; logarithms inside.
// Checked by: tests/unit/evaluate/interval_test.cpp; coverage in docs/validation.md
#include "evaluate/answer/interval.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

/// Matmuls of a block whose errors average out: attention in and out, MLP in and out.
constexpr double kMatmulShapes = 4.0;
/// Deviation of a site's factor behind three runs that scatter as most sites' do
/// (validation/sites.yaml: median 0.08, by the root of three and a half).
constexpr double kOwnRunsSpread = 0.045;

/// Deviation of ln(measured / predicted) beyond the residuals, for a framework of which no step was
/// compared. Set by the share of published runs inside p10 - p90; no fit of sources left out gives it.
constexpr double kUnvalidated = 0.12;

double sigma_of(const std::optional<Residual>& residual, double unmeasured) {
  return residual ? (residual->p90 - residual->p10) / (2.0 * kNormalP90) : unmeasured;
}

/// FLOPs of the kinds that `counts` over all FLOPs of the network.
template <typename Counts>
double share_of(const Network& network, Counts counts) {
  double all = 0.0;
  double share = 0.0;
  for (const BlockRun& run : network.order) {
    for (const Operator& op : network.blocks[run.block].operators) {
      const double flops =
          operator_forward_flops(network, op).value() * static_cast<double>(run.count);
      all += flops;
      if (counts(traits(op))) share += flops;
    }
  }
  return all > 0.0 ? share / all : 0.0;
}

/// Whether the curves of products are those of another chip, or assumed.
bool has_inherited_products(const Accelerator& chip) {
  return std::any_of(chip.provenance.begin(), chip.provenance.end(), [](const auto& field) {
    return field.first.starts_with("kernels.matmul") && field.second.evidence == Evidence::Assumed;
  });
}

void add_tier(const LinkTier& tier, double unmeasured, ErrorModel& model) {
  if (const auto* local = std::get_if<LocalLinkCurve>(&tier.curve)) {
    model.links = std::max(model.links, sigma_of(local->residual, unmeasured));
    return;
  }
  const auto& fabric = std::get<FabricCurve>(tier.curve);
  model.network =
      std::max(model.network, fabric.residual ? sigma_of(fabric.residual, unmeasured)
                                              : std::log(fabric.jitter_p90) / kNormalP90);
  model.straggler = std::max(model.straggler, fabric.straggler);
}

}  // namespace

ErrorModel error_model(const Problem& problem) {
  const FrameworkConstants& constants = problem.framework->constants;
  const Cluster& cluster = *problem.cluster;
  const DataType matmul = problem.framework->precision.at(problem.precision).matmul;
  ErrorModel model;
  const bool compared = !problem.framework->validation.empty();
  model.framework = compared ? constants.sigma : std::hypot(constants.sigma, kUnvalidated);
  model.site = problem.site.spread;
  model.scatter = problem.site.scatter;
  model.accelerators_per_node = cluster.accelerators_per_node;
  const auto& curve = cluster.accelerator.kernels.matmul[static_cast<std::size_t>(matmul)];
  model.kernels = sigma_of(curve ? curve->residual : std::nullopt, cluster.unmeasured_sigma) /
                  std::sqrt(kMatmulShapes);
  model.experts =
      constants.sigma_experts * share_of(*problem.network, [](const OperatorTraits& row) {
        return row.second_operand == SecondOperand::GroupedWeights;
      });
  // All of them are wrong by the same rule: nothing averages out.
  model.borrowed =
      cluster.unmeasured_sigma *
      share_of(*problem.network, [](const OperatorTraits& row) { return row.borrows_curve; });
  const bool measured = curve && curve->residual;
  if (!measured && cluster.accelerator.foreign_kernels) {
    model.borrowed = std::hypot(model.borrowed, cluster.foreign_sigma);
  } else if (!measured && has_inherited_products(cluster.accelerator)) {
    model.borrowed = std::hypot(model.borrowed, cluster.unmeasured_sigma);
  }
  for (const LinkTier& tier : cluster.tiers) add_tier(tier, cluster.unmeasured_sigma, model);
  return model;
}

namespace {

/// Shares of a step that errors of kernels and links are about.
struct StepShares {
  double compute = 0.0, inside = 0.0, between = 0.0;
};

StepShares shares_of(const StepTimeBreakdown& step) {
  const double total = step.total().value();
  if (total <= 0.0) return {};
  StepShares shares;
  shares.compute = (step.compute + step.recompute).value() / total;
  shares.between = step.between_nodes.value() / total;
  shares.inside = step.exposed_total().value() / total - shares.between;
  return shares;
}

double square(double x) {
  return x * x;
}

}  // namespace

// With t = sum of parts t_c and errors e_c of ln t_c that both steps share, to first order
// ln(b / a) moves by the sum of e_c (share of c in b - share of c in a).
double what_if_sigma(const ErrorModel& model, const StepTimeBreakdown& a,
                     const StepTimeBreakdown& b) {
  const StepShares p = shares_of(a), q = shares_of(b);
  return std::sqrt(square(std::hypot(model.kernels, model.borrowed) * (q.compute - p.compute)) +
                   square(model.links * (q.inside - p.inside)) +
                   square(model.network * (q.between - p.between)));
}

RelativeInterval relative_interval(const ErrorModel& model, const StepTimeBreakdown& step,
                                   int devices) {
  const double total = step.total().value();
  if (total <= 0.0) return {};
  const auto [compute, inside, between] = shares_of(step);
  const double variance = square(model.framework) + square(model.kernels * compute) +
                          square(model.links * inside) + square(model.network * between) +
                          square(model.experts);
  // The measured scatter of runs at a site contains the errors above. None had a borrowed curve.
  const double scattered =
      std::max(variance, square(model.scatter)) + square(model.borrowed * compute);
  const double spread = kNormalP90 * std::sqrt(scattered + square(model.site));
  const double nodes = static_cast<double>(devices) / model.accelerators_per_node;
  const double tail = nodes > 1.0 ? model.straggler * std::log2(nodes) : 0.0;
  return {std::exp(-spread), std::exp(std::hypot(spread, tail))};
}

Narrowing narrowing(const Problem& problem, const StepTimeBreakdown& step) {
  const ErrorModel now = error_model(problem);
  const auto width = [&](const ErrorModel& model) {
    const RelativeInterval interval = relative_interval(model, step, problem.gpus);
    return interval.p90 / interval.p10;
  };
  // Error of a measured curve: half of that of an unmeasured one.
  const double measured = problem.cluster->unmeasured_sigma / 2.0;
  Narrowing best{{}, {}, width(now), width(now)};
  const auto consider = [&](std::string what, const char* how, double ErrorModel::*part,
                            double known) {
    ErrorModel model = now;
    model.*part = std::min(model.*part, known);
    if (part == &ErrorModel::borrowed) model.kernels = std::min(model.kernels, measured);
    const double after = width(model);
    if (after < best.after) best = {std::move(what), how, best.before, after};
  };
  consider(fmt::format("matrix products in {}", to_text(problem.precision)),
           "plansearch calibrate --only gemm", &ErrorModel::borrowed, 0.0);
  consider("messages", "plansearch calibrate --only collective", &ErrorModel::links, measured);
  consider("messages between nodes", "plansearch calibrate --only collective", &ErrorModel::network,
           measured);
  consider("three runs of your own", "plansearch fit", &ErrorModel::site, kOwnRunsSpread);
  return best;
}

}  // namespace plansearch
