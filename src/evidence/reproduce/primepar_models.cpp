// SPDX-License-Identifier: Apache-2.0
// PrimePar, figures 2, 7 and 8: layers of six networks on 4 to 32 GPUs, the best plan beside
// Megatron's best, in time and in memory.
// PrimePar, figure 9: the linear layers of an MLP under Megatron's cuts and in steps over squares.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "evidence/reproduce/primepar_layers.hpp"

namespace plansearch {
namespace {

constexpr std::array<int, 4> kSizes{4, 8, 16, 32};

LayerQuestion layer_question(const char* model, int gpus, std::int64_t per_node,
                             Hiding hiding = Hiding::TilesOnly) {
  return {.model = model, .gpus = gpus, .batch = per_node * gpus / kPrimeparNode, .hiding = hiding};
}

double share_of_collectives(const char* model, std::int64_t per_node, const StudyContext& context) {
  constexpr int kGpus = 16;
  const LayerProblems problems(layer_question(model, kGpus, per_node), context.data);
  const auto price = layer_price(problems, {{kGpus / kPrimeparNode, kPrimeparNode}, {}});
  return price ? price->collectives / price->step : 0.0;
}

/// Sequences of one replica, the only thing that is fitted, by network.
using LocalBatches = std::map<std::string_view, std::int64_t>;

/// To figure 2a: Megatron on 16 GPUs, tensor ranks inside a node, replicas across. Where `shown`,
/// the figures are added.
LocalBatches fit_batches(const StudyContext& context, bool shown, Figures& figures) {
  LocalBatches batches;
  for (const char* model : {"opt-6.7b", "llama2-70b", "bloom-176b"}) {
    const std::string id = fmt::format("share {}", model);
    const double published = figures.published(id);
    std::int64_t best = 1;
    double closest = share_of_collectives(model, 1, context);
    for (std::int64_t batch = 2; batch <= 32; batch *= 2) {
      const double now = share_of_collectives(model, batch, context);
      if (std::abs(now - published) < std::abs(closest - published)) {
        closest = now;
        best = batch;
      }
    }
    batches[model] = best;
    if (shown) figures.add(id, closest, {fmt::format("{}", best)});
  }
  return batches;
}

struct Case {
  BestLayer megatron;
  BestLayer best;
  [[nodiscard]] double speed_up() const { return megatron.price.step / best.price.step; }
  [[nodiscard]] std::vector<std::string> plans() const {
    return {to_text(best.plan), to_text(megatron.plan)};
  }
};

/// Megatron's own are among the plans.
std::optional<Case> fastest(const LayerProblems& problems, const std::vector<LayerPlan>& by_role,
                            std::vector<LayerPlan> sequences) {
  const auto megatron = fastest_layer(problems, by_role);
  sequences.insert(sequences.begin(), by_role.begin(), by_role.end());
  const auto best = fastest_layer(problems, sequences);
  if (!megatron || !best) return std::nullopt;
  return Case{*megatron, *best};
}

std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Alpa: every tensor group, operators cut along one dimension each, whatever the others are.
std::optional<double> alpa_speed_up(const LayerProblems& problems, Seconds megatron) {
  std::vector<LayerPlan> plans = sequence_plans(problems, PartitionSpace::OneDimension);
  plans.push_back({{problems.few.gpus, 1}, {}});
  const auto best = fastest_layer(problems, plans);
  return best ? std::optional(megatron / best->price.step) : std::nullopt;
}

/// Memory of a device in a network of so many of these layers.
Bytes peak_of(const LayerPrice& layer, std::int64_t layers) {
  return layer.ends + layer.all * static_cast<double>(layers);
}

constexpr std::array<std::int64_t, 4> kPerNode{1, 2, 4, 8};  ///< sequences, by power of two

/// Those of the plans that the whole network can train with: they fit the accelerator with all layers
/// recomputed and some number of sequences a node.
std::vector<LayerPlan> that_fit(const std::vector<LayerPlan>& plans, const PrimeparModel& model,
                                int gpus, const StudyContext& context) {
  const std::int64_t layers = context.data.model(model.name).description.layers;
  std::vector<LayerProblems> problems;
  for (const std::int64_t per_node : kPerNode) {
    problems.emplace_back(layer_question(model.name, gpus, per_node), context.data);
  }
  std::vector<LayerPlan> fitting;
  for (const LayerPlan& plan : plans) {
    LayerPlan recomputed = plan;
    recomputed.degrees.recompute = Recompute::Full;
    const bool fits = std::ranges::any_of(problems, [&](const LayerProblems& of) {
      const auto price = layer_price(of, recomputed);
      return price && peak_of(*price, layers) <= of.few.cluster->accelerator.memory;
    });
    if (fits) fitting.push_back(plan);
  }
  return fitting;
}

/// Peak memory of the best plan over Megatron's, the fastest that fit. How many sequences a
/// replica had, and whether it recomputed its layers, is not published: of both, what leaves room
/// for both plans; all of it where nothing does, as networks of 70B ran with fewer layers.
void add_memory(std::string_view id, const Case& found, const PrimeparModel& model, int gpus,
                const StudyContext& context, Figures& figures) {
  const std::int64_t layers = context.data.model(model.name).description.layers;
  std::vector<double> all;
  std::vector<double> fitting;
  for (const std::int64_t per_node : kPerNode) {
    const LayerProblems problems(layer_question(model.name, gpus, per_node), context.data);
    for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
      LayerPlan best = found.best.plan;
      LayerPlan megatron = found.megatron.plan;
      best.degrees.recompute = megatron.degrees.recompute = recompute;
      const auto own = layer_price(problems, best);
      const auto other = layer_price(problems, megatron);
      if (!own || !other) continue;
      const Bytes held = peak_of(*own, layers);
      const Bytes by_megatron = peak_of(*other, layers);
      all.push_back(held / by_megatron);
      if (std::max(held, by_megatron) <= problems.few.cluster->accelerator.memory) {
        fitting.push_back(all.back());
      }
    }
  }
  const std::vector<double>& possible = fitting.empty() ? all : fitting;
  if (possible.empty()) return;
  ReproducedRow& row = figures.add(id, std::nullopt);
  for (const double one : possible) row.widen(one);
  row.take_middle();
}

/// Speed-ups by size and network, for comparisons of them.
using SpeedUps = std::array<std::array<double, kPrimeparModels.size()>, kSizes.size()>;

void add_case(const PrimeparModel& model, int gpus, std::int64_t per_node,
              const StudyContext& context, Figures& figures, double& speed_up) {
  const LayerProblems blocking(layer_question(model.name, gpus, per_node), context.data);
  const LayerProblems hiding(layer_question(model.name, gpus, per_node, Hiding::AsMegatron),
                             context.data);
  // Sums count nothing that other launches hide: the choices are the same.
  const std::vector<LayerPlan> sequences = sequence_plans(blocking);
  const std::vector<LayerPlan> by_role = megatron_plans(gpus);
  const auto plain = fastest(blocking, by_role, sequences);
  const auto overlapped = fastest(hiding, by_role, sequences);
  if (!plain || !overlapped) return;
  speed_up = plain->speed_up();
  const std::string id = fmt::format("{} {}", model.name, gpus);
  const std::string size = fmt::format("{}", gpus);
  figures.add(id + " speed", speed_up, plain->plans());
  figures.add("overlapped", overlapped->speed_up(),
              joined({model.shown, size}, overlapped->plans()));
  // Networks of 70B and more ran with fewer layers: none of their plans is left out.
  const std::vector<LayerPlan> fitting = that_fit(by_role, model, gpus, context);
  const auto trained = fitting.empty()
                           ? plain
                           : fastest(blocking, fitting, that_fit(sequences, model, gpus, context));
  if (trained) add_memory(id + " memory", *trained, model, gpus, context, figures);
  figures.add("stored", plain->best.price.stored / plain->megatron.price.stored,
              {model.shown, size});
  if (figures.has(id + " alpa")) {
    figures.add(id + " alpa", alpa_speed_up(blocking, plain->megatron.price.step));
  }
}

/// Figure 2b: memory of all GPUs under Megatron, tensor ranks inside a node, over that of one node.
/// The batch is the same on every number of GPUs and not published: the two of figure 9.
void add_replication(bool small, const StudyContext& context, Figures& figures) {
  const auto held = [&](int gpus, std::int64_t batch) {
    const LayerProblems problems({.model = "llama2-70b", .gpus = gpus, .batch = batch},
                                 context.data);
    const auto price = layer_price(problems, {{gpus / kPrimeparNode, kPrimeparNode}, {}});
    return price ? std::optional(gpus * price->stored.value()) : std::nullopt;
  };
  for (const int gpus : kSizes) {
    const std::string id = fmt::format("ideal {}", gpus);
    if ((gpus <= 8) != small || !figures.has(id)) continue;
    ReproducedRow& row = figures.add(id, std::nullopt);
    for (const std::int64_t batch : {8, 16}) {
      const auto all = held(gpus, batch);
      const auto node = held(kPrimeparNode, batch);
      if (all && node) row.widen(*all / *node);
    }
    row.take_middle();
  }
}

void add_means(const SpeedUps& speed_ups, Figures& figures) {
  for (std::size_t size = 0; size < kSizes.size(); ++size) {
    const auto& all = speed_ups.at(size);
    if (all.front() == 0.0) continue;  // not of this part
    const int gpus = kSizes.at(size);
    double product = 1.0;
    for (const double one : all) product *= one;
    figures.add(fmt::format("mean {}", gpus),
                std::pow(product, 1.0 / static_cast<double>(all.size())));
    if (gpus == kPrimeparNode) continue;
    // In the order of the models: small networks 0, 2, 4; large ones 1, 5; between them 3.
    const double least_large = std::min(all[1], all[5]);
    const double most_small = std::max({all[0], all[2], all[4]});
    const std::vector<std::string> words{fmt::format("{}", gpus)};
    figures.add("large over middle", least_large / all[3], words);
    figures.add("middle over small", all[3] / most_small, words);
  }
}

/// The batch of figures 7 and 8 is not published: what others would give.
void add_batches(const PrimeparModel& model, const StudyContext& context, Figures& figures) {
  constexpr int kGpus = 8;
  for (const std::int64_t per_node : {1, 2, 4, 8}) {
    const LayerProblems problems(layer_question(model.name, kGpus, per_node), context.data);
    const auto found = fastest(problems, megatron_plans(kGpus), sequence_plans(problems));
    if (!found) continue;
    const std::vector<std::string> words{model.shown,
                                         fmt::format("{}", per_node * kGpus / kPrimeparNode)};
    const LayerPrice& plain = found->megatron.price;
    figures.add("batch speed", found->speed_up(), joined(words, found->plans()));
    figures.add("batch memory", found->best.price.stored / plain.stored, words);
    figures.add("batch all memory", plain.all.value() / (1024.0 * 1024.0 * 1024.0), words);
  }
}

LayerQuestion mlp_question(const char* model, int gpus, std::int64_t batch) {
  return {.model = model, .gpus = gpus, .batch = batch, .part = Part::Mlp};
}

double ms(Seconds time) {
  return 1e3 * time.value();
}

/// {B,K,K}, {B,N,N} beside what the paper's planner found, {K,P2x2}, {N,P2x2}, and ours finds.
void add_timeline(const StudyContext& context, Figures& figures) {
  const LayerProblems problems(mlp_question("opt-175b", 8, 8), context.data);
  const auto megatron = layer_price(problems, {{2, 4}, {}});
  const auto best = fastest_layer(problems, sequence_plans(problems));
  if (!megatron || !best) return;
  const LayerPrice& primepar = best->price;
  const std::vector<std::string> words{best->plan.words};
  figures.add("timeline megatron products", ms(megatron->compute));
  figures.add("timeline megatron all-reduces", ms(megatron->collectives));
  figures.add("timeline products", ms(primepar.compute), words);
  figures.add("timeline all-reduces", ms(primepar.collectives), words);
  figures.add("timeline tiles", ms(primepar.tiles), words);
  figures.add("timeline redistribution", ms(primepar.redistribution), words);
  figures.add("timeline ratio", primepar.step / megatron->step);
}

void add_bar(const char* model, int gpus, int batch, const StudyContext& context,
             Figures& figures) {
  const LayerProblems problems(mlp_question(model, gpus, batch), context.data);
  const auto megatron = fastest_layer(problems, megatron_plans(gpus));
  const auto best = fastest_layer(problems, sequence_plans(problems));
  if (!megatron || !best) return;
  const LayerPrice& plain = megatron->price;
  const auto id = [&](const char* what) {
    return fmt::format("mlp {} {} {} {}", model, gpus, batch, what);
  };
  figures.add(id("collectives"), plain.collectives / plain.step, {to_text(megatron->plan)});
  figures.add(id("best"), best->price.step / plain.step, {to_text(best->plan)});
  figures.add(id("all-reduces"), best->price.collectives / plain.collectives);
  figures.add(id("tiles"), best->price.exposed_tiles / plain.step);
}

}  // namespace

void add_primepar_models(const StudyContext& context, PrimeparNodes nodes, Figures& figures) {
  const bool small = nodes == PrimeparNodes::UpToTwo;
  const LocalBatches batches = fit_batches(context, small, figures);
  SpeedUps speed_ups{};
  for (std::size_t index = 0; index < kPrimeparModels.size(); ++index) {
    const PrimeparModel& model = kPrimeparModels.at(index);
    for (std::size_t size = 0; size < kSizes.size(); ++size) {
      if ((kSizes.at(size) <= 8) != small) continue;
      add_case(model, kSizes.at(size), batches.at(model.fitted_as), context, figures,
               speed_ups.at(size).at(index));
    }
  }
  add_means(speed_ups, figures);
  add_replication(small, context, figures);
  if (!small) return;
  for (const std::size_t index : {0, 1, 3}) {
    add_batches(kPrimeparModels.at(index), context, figures);
  }
}

void add_primepar_mlp(const StudyContext& context, PrimeparNodes nodes, Figures& figures) {
  const bool small = nodes == PrimeparNodes::UpToTwo;
  if (small) add_timeline(context, figures);
  for (const char* model : {"opt-175b", "llama2-70b"}) {
    for (const int batch : {8, 16}) add_bar(model, small ? 8 : 16, batch, context, figures);
  }
}

}  // namespace plansearch
