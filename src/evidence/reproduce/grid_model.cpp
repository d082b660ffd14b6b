// SPDX-License-Identifier: Apache-2.0
// Source: Singh et al., arXiv 2305.13525v3; axonn-ai/Megatron-AxoNN, branch gordon-bell-perlmutter
// (2024): examples/comm_model.py (equations), megatron/training.py (FLOPs). The script costs the
// last product of a block as if it were H -> 4H.
#include "evidence/reproduce/grid_model.hpp"

#include <algorithm>
#include <array>

#include "evidence/reproduce/reproduce.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/plan_report.hpp"

namespace plansearch {
namespace {

/// Not part of the closed forms: norms and biases.
constexpr std::array<std::string_view, 4> kBeside{"statistics", ".bias", "norm1.", "norm2."};

bool is_product(const PricedCommunication& line) {
  return std::ranges::none_of(
      kBeside, [&](std::string_view word) { return line.what.find(word) != std::string::npos; });
}

/// Launches and skew are outside of a closed form, and so is overlap.
Problem bare(Problem problem, DataType reduction) {
  Framework framework = *problem.framework;
  FrameworkConstants& c = framework.constants;
  c.collective_call = c.collective_rank = Seconds(0);
  c.collective_skew = c.collective_skew_across_nodes = Seconds(0);
  framework.precision[problem.precision].reduction = reduction;
  problem.framework = std::make_shared<const Framework>(std::move(framework));
  return problem;
}

double moved_seconds(const PlanEvaluator& evaluator, const PlanDegrees& plan, bool over_data) {
  const auto workspace = PlanEvaluator::make_workspace();
  double sum = 0.0;
  for (const PricedCommunication& line : plan_details(evaluator, plan, *workspace).communication) {
    if (line.communication.axes.contains(Axis::Data) != over_data || !is_product(line)) continue;
    sum += line.time.value() * line.count;
  }
  return sum;
}

}  // namespace

std::vector<TensorGrid> grids_of(int gpus, std::int64_t batch, int min_tensor) {
  std::vector<TensorGrid> grids;
  for (int in = 1; in <= gpus; in *= 2) {
    for (int out = 1; in * out <= gpus; out *= 2) {
      for (int depth = 1; in * out * depth <= gpus; depth *= 2) {
        const TensorGrid grid{out, in, depth, gpus / (in * out * depth)};
        const bool whole = grid.tensor() * grid.data == gpus;
        const bool cut = batch % (std::int64_t{1} * grid.data * depth) == 0;
        if (whole && cut && grid.tensor() >= min_tensor) grids.push_back(grid);
      }
    }
  }
  return grids;
}

double RingRates::rate(int inner, int ranks) const {
  if (inner * ranks <= node) return inside.at({inner, ranks});
  return between / std::min(node, inner);
}

RingRates ring_rates(std::string_view machine, const ShippedData& data) {
  const auto table =
      io::CsvTable::read(data.directory() / "validation" / "published" / "axonn_rates.csv");
  RingRates rates;
  for (const io::CsvRow& row : table.rows()) {
    if (table.text(row, "machine") != machine) continue;
    const auto count = [&](const char* column) { return table.integer(row, column, 1); };
    const double rate = table.number(row, "gb_s", 0.0).value();
    const auto ranks = count("ranks");
    if (!ranks) {
      rates.node = static_cast<int>(count("inner").value());
      rates.between = rate;
      continue;
    }
    const std::pair group{static_cast<int>(count("inner").value()), static_cast<int>(*ranks)};
    rates.inside[group] = rate;
    if (table.text(row, "kind") == to_text(FigureKind::Fitted)) rates.used.insert(group);
  }
  return rates;
}

BlockWeights block_weights(bool recompute, bool kept) {
  // Forward all-reduces, over `in` after normal products (3H and 4H wide) and over `out` after
  // transposed ones (H and H); backward ones the other way round (H and H; H and 4H).
  const double forward = recompute ? 2.0 : 1.0;
  const double gathers = forward + (kept ? 0.0 : 1.0);
  return {forward * 2.0 + 2.0, forward * 7.0 + 5.0, gathers + 1.0};
}

double grid_seconds(const GptSizes& sizes, std::int64_t batch, const TensorGrid& grid,
                    const RingRates& rates, const BlockWeights& weights) {
  constexpr double kGiga = 1e9;
  const auto hidden = static_cast<double>(sizes.hidden);
  const double tile = grid.out * grid.in;
  const double residual =
      static_cast<double>(batch * sizes.seq_len) / (grid.data * grid.depth) * hidden / tile;
  const double products = 12.0 * hidden * hidden / tile;
  const auto seconds = [&](double elements, double bytes, int inner, int ranks) {
    return ranks == 1 ? 0.0 : elements * bytes / (rates.rate(inner, ranks) * kGiga);
  };
  const auto share = [](int ranks) { return (ranks - 1.0) / ranks; };
  const double block =
      seconds(weights.in * residual * 2.0 * (grid.in - 1), 2.0, 1, grid.in) +
      seconds(weights.out * residual * 2.0 * (grid.out - 1), 2.0, grid.in, grid.out) +
      seconds(weights.depth * products * share(grid.depth), 2.0, grid.in * grid.out, grid.depth) +
      seconds(products / grid.depth * 2.0 * share(grid.data), 4.0, grid.tensor(), grid.data);
  return block * static_cast<double>(sizes.layers);
}

double gpt_parameters(const GptSizes& sizes) {
  const auto layers = static_cast<double>(sizes.layers);
  const auto hidden = static_cast<double>(sizes.hidden);
  const auto rows = static_cast<double>(sizes.vocab + sizes.seq_len);
  return 12.0 * layers * hidden * hidden *
         (1.0 + 13.0 / (12.0 * hidden) + rows / (12.0 * layers * hidden));
}

double gpt_flops(const GptSizes& sizes, std::int64_t batch) {
  const auto layers = static_cast<double>(sizes.layers);
  const auto hidden = static_cast<double>(sizes.hidden);
  const auto seq = static_cast<double>(sizes.seq_len);
  const auto vocab = static_cast<double>(sizes.vocab);
  return 96.0 * static_cast<double>(batch) * seq * layers * hidden * hidden *
         (1.0 + seq / (6.0 * hidden) + vocab / (16.0 * layers * hidden));
}

double DerivedGrid::Pair::layers(const PlanDegrees& plan, bool over_data) const {
  return moved_seconds(*twice, plan, over_data) - moved_seconds(*once, plan, over_data);
}

DerivedGrid::DerivedGrid(const Question& question, const ShippedData& data)
    : batch_(question.batch) {
  const auto evaluator = [&](std::int64_t layers, DataType reduction) {
    GptSizes sizes = question.sizes;
    sizes.layers = layers;
    const Problem problem = gpt_problem({.hardware = question.hardware,
                                         .framework = "axonn",
                                         .gpus = question.gpus,
                                         .batch = question.batch,
                                         .precision = "bf16"},
                                        sizes, data, {"*norm*", "*.bias"});
    keeps_gathered_ = problem.framework->sharding.depth_gather != Scope::Use;
    return std::make_unique<PlanEvaluator>(bare(problem, reduction));
  };
  const auto pair = [&](DataType reduction) {
    const std::int64_t layers = question.sizes.layers;
    return Pair{evaluator(layers, reduction), evaluator(2 * layers, reduction)};
  };
  narrow_ = pair(DataType::Bf16);
  wide_ = pair(DataType::Fp32);
}

std::optional<double> DerivedGrid::seconds(const TensorGrid& grid, Recompute recompute) const {
  PlanDegrees plan;
  plan.tensor_out = grid.out;
  plan.tensor_in = grid.in;
  plan.tensor_depth = grid.depth;
  plan.data = grid.data;
  plan.micro_batch = static_cast<int>(batch_ / (std::int64_t{1} * grid.data * grid.depth));
  plan.recompute = recompute;
  if (narrow_.once->legality(plan)) return std::nullopt;
  return narrow_.layers(plan, false) + wide_.layers(plan, true);
}

}  // namespace plansearch
