// SPDX-License-Identifier: Apache-2.0
// PrimePar, figure 9: the linear layers of an MLP under Megatron's cuts and in steps over squares.
#include <fmt/format.h>

#include <array>

#include "studies/reproduce/primepar.hpp"
#include "studies/reproduce/primepar_layers.hpp"

namespace plansearch {
namespace {

using Rows = std::vector<ReproducedRow>;

constexpr const char* kTimeline = "PrimePar (ASPLOS 2024), figure 9, right";
constexpr const char* kBars = "PrimePar (ASPLOS 2024), figure 9, left";

ReproducedRow row(std::string check, const char* unit, double published, double predicted,
                  double below, double above, const char* source) {
  return {std::move(check),  unit,  published, predicted, published - below,
          published + above, source};
}

LayerQuestion mlp_question(const char* model, int gpus, std::int64_t batch) {
  LayerQuestion question;
  question.model = model;
  question.gpus = gpus;
  question.batch = batch;
  question.part = Part::Mlp;
  return question;
}

double ms(Seconds time) {
  return 1e3 * time.value();
}

/// {B,K,K}, {B,N,N} beside what the paper's planner found, {K,P2x2}, {N,P2x2}, and ours finds.
void add_timeline(const StudyContext& context, Rows& rows) {
  const LayerProblems problems(mlp_question("opt-175b", 8, 8), context.data);
  const auto megatron = layer_price(problems, {{2, 4}, {}});
  const auto best = fastest_layer(problems, sequence_plans(problems));
  if (!megatron || !best) return;
  const LayerPrice& primepar = best->price;
  constexpr double kCompute = 992.0;      // 167 + 168 + 165 + 166 + 162 + 164
  constexpr double kCollectives = 806.0;  // 24 + 364 + 41 + 377
  constexpr double kSteps = 998.0;        // the twelve steps
  constexpr double kOwn = 285.0;          // 157 + 128
  constexpr double kTiles = 75.0;
  const std::string what = "OPT-175B MLP, 8 GPUs, batch 8 (fitted): ";
  const std::string squares = fmt::format("{}in steps ({}), ", what, best->plan.words);
  rows.push_back(row(what + "Megatron, products", "ms", kCompute, ms(megatron->compute),
                     0.02 * kCompute, 0.02 * kCompute, kTimeline));
  rows.push_back(row(what + "Megatron, all-reduces", "ms", kCollectives, ms(megatron->collectives),
                     0.1 * kCollectives, 0.1 * kCollectives, kTimeline));
  rows.push_back(row(squares + "products", "ms", kSteps, ms(primepar.compute), 0.02 * kSteps,
                     0.02 * kSteps, kTimeline));
  rows.push_back(row(squares + "all-reduces", "ms", kOwn, ms(primepar.collectives), 0.1 * kOwn,
                     0.1 * kOwn, kTimeline));
  rows.push_back(row(squares + "tiles that travel", "ms", kTiles, ms(primepar.tiles), 0.2 * kTiles,
                     0.2 * kTiles, kTimeline));
  rows.push_back({squares + "redistribution", "ms", std::nullopt, ms(primepar.redistribution),
                  std::nullopt, std::nullopt, kTimeline});
  constexpr double kRatio = 0.715;
  constexpr double kRatioBand = 0.03;
  rows.push_back(row(what + "in steps over Megatron", "", kRatio, primepar.step / megatron->step,
                     kRatioBand, kRatioBand, kTimeline));
}

struct Bar {
  const char* model;
  const char* name;
  int gpus;
  std::int64_t batch;
  double compute;      ///< share of Megatron's time
  double total;        ///< of PrimePar over Megatron's
  double collectives;  ///< of PrimePar over those of Megatron
};

constexpr std::array<Bar, 8> kBarsRead{{{"opt-175b", "OPT-175B", 8, 8, 0.547, 0.715, 0.346},
                                        {"opt-175b", "OPT-175B", 8, 16, 0.694, 0.875, 0.622},
                                        {"llama2-70b", "Llama2-70B", 8, 8, 0.528, 0.769, 0.512},
                                        {"llama2-70b", "Llama2-70B", 8, 16, 0.655, 0.854, 0.591},
                                        {"opt-175b", "OPT-175B", 16, 8, 0.258, 0.443, 0.222},
                                        {"opt-175b", "OPT-175B", 16, 16, 0.412, 0.581, 0.199},
                                        {"llama2-70b", "Llama2-70B", 16, 8, 0.373, 0.607, 0.365},
                                        {"llama2-70b", "Llama2-70B", 16, 16, 0.482, 0.628, 0.23}}};

void add_bar(const Bar& bar, const StudyContext& context, Rows& rows) {
  const LayerProblems problems(mlp_question(bar.model, bar.gpus, bar.batch), context.data);
  const auto megatron = fastest_layer(problems, megatron_plans(bar.gpus));
  const auto best = fastest_layer(problems, sequence_plans(problems));
  if (!megatron || !best) return;
  const LayerPrice& plain = megatron->price;
  constexpr double kBand = 0.08;
  constexpr double kShown = 0.01;
  const std::string what =
      fmt::format("{} MLP, {} GPUs, batch {}: ", bar.name, bar.gpus, bar.batch);
  rows.push_back(
      row(fmt::format("{}share of collectives, Megatron ({})", what, to_text(megatron->plan)), "",
          1.0 - bar.compute, plain.collectives / plain.step, kBand, kBand, kBars));
  rows.push_back(row(fmt::format("{}best ({}) over Megatron", what, to_text(best->plan)), "",
                     bar.total, best->price.step / plain.step, kBand, kBand, kBars));
  rows.push_back({what + "all-reduces over Megatron's", "", bar.collectives,
                  best->price.collectives / plain.collectives, std::nullopt, std::nullopt, kBars});
  rows.push_back(row(what + "tiles that are not hidden, of Megatron's time", "", 0.0,
                     best->price.exposed_tiles / plain.step, 0.0, kShown, kBars));
}

}  // namespace

void add_primepar_mlp(const StudyContext& context, PrimeparNodes nodes, Rows& rows) {
  const bool small = nodes == PrimeparNodes::UpToTwo;
  if (small) add_timeline(context, rows);
  for (const Bar& bar : kBarsRead) {
    if ((bar.gpus <= 8) == small) add_bar(bar, context, rows);
  }
}

}  // namespace plansearch
