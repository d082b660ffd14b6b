// SPDX-License-Identifier: Apache-2.0
// PrimePar, section 6.4: 32 GPUs as pipeline x data x tensor, whole networks, Megatron's cuts
// beside operators in steps under the same degrees.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/parallel.hpp"
#include "evidence/reproduce/gpt_question.hpp"
#include "evidence/reproduce/primepar_layers.hpp"

namespace plansearch {
namespace {

struct Degrees3d {
  int pipeline;
  int data;
  int tensor;
};
constexpr std::array<Degrees3d, 6> kDegrees{
    {{2, 1, 16}, {2, 2, 8}, {2, 4, 4}, {4, 1, 8}, {4, 2, 4}, {8, 1, 4}}};

constexpr int kGpus = 32;

std::optional<Seconds> step_of(const Problem& problem, const LayerPlan& plan) {
  const auto made = made_plan(problem, plan);
  if (!made) return std::nullopt;
  return estimate_of(PlanEvaluator(problem), *made).step.total();
}

struct Times3d {
  std::optional<Seconds> megatron;
  std::optional<Seconds> best;
};

/// Micro-batches of so many sequences, or of all that a replica has.
Times3d times_of(const Problem& problem, const Degrees3d& asked, std::int64_t micro_batch) {
  const std::int64_t sequences = problem.global_batch / asked.data;
  const LayerDegrees degrees{asked.data, asked.tensor, asked.pipeline,
                             static_cast<int>(sequences / std::min(sequences, micro_batch))};
  Times3d times;
  times.best = times.megatron = step_of(problem, {degrees, {}});
  for (const LayerPlan& plan : sequence_plans(problem, degrees)) {
    const auto step = step_of(problem, plan);
    if (step) times.best = times.best ? std::min(*times.best, *step) : *step;
  }
  return times;
}

std::string words(const Degrees3d& degrees) {
  return fmt::format("({},{},{})", degrees.pipeline, degrees.data, degrees.tensor);
}

/// Id of a published throughput, "in steps" or by "megatron".
std::string id_of(const PrimeparModel& model, const Degrees3d& degrees, const char* what) {
  return fmt::format("throughput {} {} {}", model.name, words(degrees), what);
}

/// Settings that are not published make a range: the sequences of a micro-batch, and how rings over
/// whole nodes use a card. The batch is the smaller of figure 9. Layers stand alone: that the figure
/// has (8,1,4) at 0.75 of (2,4,4) for OPT, Llama 2 and BLOOM alike leaves no room for a head, which
/// is as much work as a third of a layer of Llama 2 and as five of BLOOM.
struct Setting {
  std::int64_t micro_batch;
  double full_node;
};
constexpr std::int64_t kBatch = 8;

std::vector<Setting> settings(const Figures& figures) {
  std::vector<Setting> all;
  for (const std::int64_t micro_batch : {1, 2, 4}) {
    for (const char* rate : {"full node least", "full node most"}) {
      all.push_back({micro_batch, figures.published(rate)});
    }
  }
  return all;
}

using Times = std::array<Times3d, kDegrees.size()>;  ///< by degrees, under one setting

std::optional<double> ratio(const std::optional<Seconds>& a, const std::optional<Seconds>& b) {
  return a && b ? std::optional(*a / *b) : std::nullopt;
}

/// Adds a row with the range of what the times under each setting give.
void add_range(std::string_view id, const std::vector<Times>& times,
               const std::function<std::optional<double>(const Times&)>& value,
               const std::vector<std::string>& words, std::optional<double> published,
               Figures& figures) {
  ReproducedRow& row = figures.add(id, std::nullopt, words, published);
  for (const Times& one : times) row.widen(value(one));
  row.take_middle();
}

/// The figure normalises by Megatron under these degrees: the first that it has.
std::size_t reference_of(const PrimeparModel& model, const Figures& figures) {
  std::size_t d = 0;
  while (!figures.has(id_of(model, kDegrees.at(d), "megatron"))) ++d;
  return d;
}

/// The degrees of the fastest plan in steps.
std::size_t fastest_of(const Times& times) {
  std::size_t fastest = 0;
  for (std::size_t d = 1; d < times.size(); ++d) {
    const auto& best = times.at(fastest).best;
    if (times.at(d).best && (!best || *times.at(d).best < *best)) fastest = d;
  }
  return fastest;
}

void add_rows(const PrimeparModel& model, const std::vector<Times>& times, Figures& figures) {
  const std::size_t reference = reference_of(model, figures);
  std::size_t best = 0;
  double most = 0.0;
  for (std::size_t d = 0; d < kDegrees.size(); ++d) {
    const std::string name = words(kDegrees.at(d));
    const double in_steps = figures.published(id_of(model, kDegrees.at(d), "in steps"));
    if (in_steps > most) best = d;
    most = std::max(most, in_steps);
    const std::string megatron = id_of(model, kDegrees.at(d), "megatron");
    if (!figures.has(megatron)) continue;
    const double throughput = figures.published(megatron);
    if (d != reference) {
      const auto over_reference = [&](const Times& one) {
        return ratio(one.at(reference).megatron, one.at(d).megatron);
      };
      add_range("baseline", times, over_reference,
                {model.shown, name, words(kDegrees.at(reference))}, throughput, figures);
    }
    const auto gain = [&](const Times& one) { return ratio(one.at(d).megatron, one.at(d).best); };
    add_range(kDegrees.at(d).tensor > kPrimeparNode ? "gain" : "gain of one node", times, gain,
              {model.shown, name}, in_steps / throughput, figures);
  }
  std::vector<std::string> found;
  double right = 0.0;
  for (const Times& one : times) {
    const std::size_t fastest = fastest_of(one);
    if (fastest == best) right += 1.0;
    const std::string name = words(kDegrees.at(fastest));
    if (std::ranges::find(found, name) == found.end()) found.push_back(name);
  }
  ReproducedRow& row = figures.add(
      "fastest", right / static_cast<double>(times.size()),
      {model.shown, words(kDegrees.at(best)), fmt::format("{}", fmt::join(found, ", "))});
  for (const Times& one : times) row.widen(fastest_of(one) == best ? 1.0 : 0.0);
}

void add_network(const PrimeparModel& model, const StudyContext& context, Figures& figures) {
  const std::int64_t layers = context.data.model(model.name).description.layers;
  const std::vector<Setting> all = settings(figures);
  std::vector<Times> times(all.size());
  parallel_for(all.size(), context.threads, [&](std::size_t i) {
    const Problem problem = layer_problem({.model = model.name,
                                           .gpus = kGpus,
                                           .batch = kBatch,
                                           .part = Part::Layers,
                                           .full_node = all[i].full_node},
                                          layers, context.data);
    for (std::size_t d = 0; d < kDegrees.size(); ++d) {
      times[i].at(d) = times_of(problem, kDegrees.at(d), all[i].micro_batch);
    }
  });
  add_rows(model, times, figures);
}

}  // namespace

void add_primepar_pipelines(const StudyContext& context, Figures& figures) {
  for (const PrimeparModel& model : kPrimeparModels) add_network(model, context, figures);
}

}  // namespace plansearch
