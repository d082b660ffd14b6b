// SPDX-License-Identifier: Apache-2.0
// PrimePar, figures 2, 7 and 8: layers of six networks on 4 to 32 GPUs, the best plan beside
// Megatron's best, in time and in memory.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "studies/reproduce/primepar.hpp"
#include "studies/reproduce/primepar_layers.hpp"

namespace plansearch {
namespace {

using Rows = std::vector<ReproducedRow>;

constexpr std::array<int, 4> kSizes{4, 8, 16, 32};

struct Model {
  const char* name;
  const char* shown;
  const char* fitted_as;  ///< whose local batch it takes
  std::array<double, 4> speed_up;
  std::array<double, 4> memory;
};

constexpr std::array<Model, 6> kModels{
    {{"opt-6.7b", "OPT-6.7B", "opt-6.7b", {1.16, 1.18, 1.16, 1.20}, {0.89, 0.90, 0.93, 0.93}},
     {"opt-175b", "OPT-175B", "bloom-176b", {1.11, 1.35, 1.38, 1.39}, {0.92, 0.80, 0.80, 0.79}},
     {"llama2-7b", "Llama2-7B", "opt-6.7b", {1.16, 1.19, 1.20, 1.21}, {0.90, 0.91, 0.93, 0.92}},
     {"llama2-70b", "Llama2-70B", "llama2-70b", {1.15, 1.21, 1.24, 1.26}, {0.91, 0.88, 0.91, 0.89}},
     {"bloom-7b1", "BLOOM-7B1", "opt-6.7b", {1.15, 1.18, 1.18, 1.19}, {0.89, 0.90, 0.93, 0.92}},
     {"bloom-176b",
      "BLOOM-176B",
      "bloom-176b",
      {1.11, 1.43, 1.68, 1.60},
      {0.92, 0.78, 0.69, 0.68}}}};

/// Figure 2a: Megatron on 16 GPUs, tensor ranks inside a node, replicas across.
struct Share {
  const char* name;
  const char* shown;
  double collectives;
};
constexpr std::array<Share, 3> kShares{{{"opt-6.7b", "OPT-6.7B", 0.415},
                                        {"llama2-70b", "Llama2-70B", 0.384},
                                        {"bloom-176b", "BLOOM-176B", 0.646}}};

constexpr int kNode = 4;

LayerQuestion layer_question(const char* model, int gpus, std::int64_t per_node, Hiding hiding) {
  LayerQuestion question;
  question.model = model;
  question.gpus = gpus;
  question.batch = per_node * gpus / kNode;
  question.hiding = hiding;
  return question;
}

double share_of_collectives(const char* model, std::int64_t per_node, const StudyContext& context) {
  constexpr int kGpus = 16;
  const LayerProblems problems(layer_question(model, kGpus, per_node, Hiding::TilesOnly),
                               context.data);
  const auto price = layer_price(problems, {{kGpus / kNode, kNode}, {}});
  return price ? price->collectives / price->step : 0.0;
}

/// Sequences of one replica, the only thing that is fitted, by network.
using LocalBatches = std::map<std::string_view, std::int64_t>;

LocalBatches fit_batches(const StudyContext& context, Rows& rows) {
  constexpr const char* kSource = "PrimePar (ASPLOS 2024), figure 2a";
  constexpr double kBand = 0.08;
  LocalBatches batches;
  for (const Share& share : kShares) {
    std::int64_t best = 1;
    double closest = share_of_collectives(share.name, 1, context);
    for (std::int64_t batch = 2; batch <= 32; batch *= 2) {
      const double now = share_of_collectives(share.name, batch, context);
      if (std::abs(now - share.collectives) < std::abs(closest - share.collectives)) {
        closest = now;
        best = batch;
      }
    }
    batches[share.name] = best;
    rows.push_back({fmt::format("{}, 16 GPUs, d4 m4: share of collectives ({} sequences a node, "
                                "fitted)",
                                share.shown, best),
                    "", share.collectives, closest, share.collectives - kBand,
                    share.collectives + kBand, kSource});
  }
  return batches;
}

struct Case {
  BestLayer megatron;
  BestLayer best;
  [[nodiscard]] double speed_up() const { return megatron.price.step / best.price.step; }
};

/// Megatron's own are among the plans.
std::optional<Case> fastest(const LayerProblems& problems, std::vector<LayerPlan> sequences,
                            int gpus) {
  const std::vector<LayerPlan> by_role = megatron_plans(gpus);
  const auto megatron = fastest_layer(problems, by_role);
  sequences.insert(sequences.begin(), by_role.begin(), by_role.end());
  const auto best = fastest_layer(problems, sequences);
  if (!megatron || !best) return std::nullopt;
  return Case{*megatron, *best};
}

/// Speed-ups by size and network, for what is asked of all of them.
using SpeedUps = std::array<std::array<double, kModels.size()>, kSizes.size()>;

void add_case(const Model& model, std::size_t size, std::int64_t per_node,
              const StudyContext& context, Rows& rows, SpeedUps& speed_ups, std::size_t index) {
  constexpr const char* kSpeed = "PrimePar (ASPLOS 2024), figure 7";
  constexpr const char* kMemory = "PrimePar (ASPLOS 2024), figure 8";
  constexpr double kSpeedBand = 0.12;
  constexpr double kMemoryBand = 0.06;
  const int gpus = kSizes.at(size);
  const LayerProblems blocking(layer_question(model.name, gpus, per_node, Hiding::TilesOnly),
                               context.data);
  const LayerProblems hiding(layer_question(model.name, gpus, per_node, Hiding::AsMegatron),
                             context.data);
  // Sums count nothing that other launches hide: the choices are the same.
  const std::vector<LayerPlan> sequences = sequence_plans(blocking);
  const auto plain = fastest(blocking, sequences, gpus);
  const auto overlapped = fastest(hiding, sequences, gpus);
  if (!plain || !overlapped) return;
  speed_ups.at(size).at(index) = plain->speed_up();
  const std::string what = fmt::format("{}, {} GPUs: ", model.shown, gpus);
  const double speed = model.speed_up.at(size);
  rows.push_back({fmt::format("{}{} over Megatron ({})", what, to_text(plain->best.plan),
                              to_text(plain->megatron.plan)),
                  "x", speed, plain->speed_up(), std::max(1.0, speed * (1.0 - kSpeedBand)),
                  speed * (1.0 + kSpeedBand), kSpeed});
  rows.push_back({fmt::format("{}the same, overlapped as Megatron-LM does: {} over {}", what,
                              to_text(overlapped->best.plan), to_text(overlapped->megatron.plan)),
                  "x", std::nullopt, overlapped->speed_up(), std::nullopt, std::nullopt, ""});
  const double memory = model.memory.at(size);
  rows.push_back({what + "memory over Megatron's, parameters and activations", "x", memory,
                  plain->best.price.stored / plain->megatron.price.stored, memory - kMemoryBand,
                  memory + kMemoryBand, kMemory});
  rows.push_back({what + "the same with gradients, optimizer and buffers", "x", std::nullopt,
                  plain->best.price.all / plain->megatron.price.all, std::nullopt, std::nullopt,
                  ""});
}

void add_means(const SpeedUps& speed_ups, Rows& rows) {
  constexpr const char* kSource = "PrimePar (ASPLOS 2024), figure 7";
  constexpr std::array<double, 4> kMeans{1.14, 1.25, 1.30, 1.30};
  constexpr double kBand = 0.10;
  for (std::size_t size = 0; size < kSizes.size(); ++size) {
    const auto& all = speed_ups.at(size);
    if (all.front() == 0.0) continue;  // not of this part
    double product = 1.0;
    for (const double one : all) product *= one;
    const double mean = std::pow(product, 1.0 / static_cast<double>(all.size()));
    rows.push_back({fmt::format("{} GPUs: geometric mean over Megatron", kSizes.at(size)), "x",
                    kMeans.at(size), mean, kMeans.at(size) - kBand, kMeans.at(size) + kBand,
                    kSource});
    if (kSizes.at(size) == kNode) continue;
    // In the order of kModels: small networks 0, 2, 4; large ones 1, 5; between them 3.
    const double least_large = std::min(all[1], all[5]);
    const double most_small = std::max({all[0], all[2], all[4]});
    rows.push_back({fmt::format("{} GPUs: least of the 175B over Llama2-70B", kSizes.at(size)), "",
                    std::nullopt, least_large / all[3], 1.0, std::nullopt, kSource});
    rows.push_back({fmt::format("{} GPUs: Llama2-70B over the most of the 7B", kSizes.at(size)), "",
                    std::nullopt, all[3] / most_small, 1.0, std::nullopt, kSource});
  }
}

/// The batch of figures 7 and 8 is not published: what another one would give.
void add_batches(const Model& model, const StudyContext& context, Rows& rows) {
  constexpr int kGpus = 8;
  constexpr std::size_t kSize = 1;  // of kSizes
  for (const std::int64_t per_node : {1, 2, 4, 8}) {
    const LayerProblems problems(layer_question(model.name, kGpus, per_node, Hiding::TilesOnly),
                                 context.data);
    const auto found = fastest(problems, sequence_plans(problems), kGpus);
    if (!found) continue;
    const std::string what =
        fmt::format("{}, {} GPUs, batch {}: ", model.shown, kGpus, per_node * kGpus / kNode);
    rows.push_back({fmt::format("{}{} over Megatron ({})", what, to_text(found->best.plan),
                                to_text(found->megatron.plan)),
                    "x", model.speed_up.at(kSize), found->speed_up(), std::nullopt, std::nullopt,
                    "PrimePar (ASPLOS 2024), figure 7"});
    rows.push_back({what + "memory over Megatron's, parameters and activations", "x",
                    model.memory.at(kSize), found->best.price.stored / found->megatron.price.stored,
                    std::nullopt, std::nullopt, "PrimePar (ASPLOS 2024), figure 8"});
    rows.push_back({what + "a layer under Megatron, all of its memory", "GiB", std::nullopt,
                    found->megatron.price.all.value() / (1024.0 * 1024.0 * 1024.0), std::nullopt,
                    std::nullopt, ""});
  }
}

}  // namespace

void add_primepar_models(const StudyContext& context, PrimeparNodes nodes, Rows& rows) {
  const bool small = nodes == PrimeparNodes::UpToTwo;
  Rows fitted;
  const LocalBatches batches = fit_batches(context, fitted);
  if (small) rows.insert(rows.end(), fitted.begin(), fitted.end());
  SpeedUps speed_ups{};
  for (std::size_t index = 0; index < kModels.size(); ++index) {
    const Model& model = kModels.at(index);
    for (std::size_t size = 0; size < kSizes.size(); ++size) {
      if ((kSizes.at(size) <= 8) != small) continue;
      add_case(model, size, batches.at(model.fitted_as), context, rows, speed_ups, index);
    }
  }
  add_means(speed_ups, rows);
  if (!small) return;
  for (const std::size_t index : {0, 1, 3}) add_batches(kModels.at(index), context, rows);
}

}  // namespace plansearch
