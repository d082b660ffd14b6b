// SPDX-License-Identifier: Apache-2.0
// PrimePar, section 6.4: 32 GPUs as pipeline x data x tensor, whole networks, Megatron's cuts
// beside operators in steps under the same degrees.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>

#include "studies/reproduce/gpt_question.hpp"
#include "studies/reproduce/primepar.hpp"
#include "studies/reproduce/primepar_layers.hpp"

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
constexpr int kNode = 4;

std::optional<Seconds> step_of(const Problem& problem, const LayerPlan& plan) {
  const auto made = made_plan(problem, plan);
  if (!made) return std::nullopt;
  return estimate_of(PlanEvaluator(problem), *made).step.total();
}

struct Times3d {
  std::optional<Seconds> megatron;
  std::optional<Seconds> best;
};

Times3d times_of(const Problem& problem, const Degrees3d& asked) {
  // Micro-batches of one sequence.
  const LayerDegrees degrees{asked.data, asked.tensor, asked.pipeline,
                             static_cast<int>(problem.global_batch / asked.data)};
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

/// Of a published throughput, "in steps" or by "megatron".
std::string id_of(const PrimeparModel& model, const Degrees3d& degrees, const char* what) {
  return fmt::format("throughput {} {} {}", model.name, words(degrees), what);
}

/// Steps by degrees for each batch: how many micro-batches of one sequence is not published; figure
/// 9 has batches of 8 and 16.
constexpr std::array<std::int64_t, 2> kBatches{8, 16};
using Times = std::array<std::array<Times3d, kDegrees.size()>, kBatches.size()>;

/// What is predicted over the batches, and between.
struct Range {
  std::optional<double> least{};
  std::optional<double> most{};
  [[nodiscard]] std::optional<double> middle() const {
    return least ? std::optional(std::sqrt(*least * *most)) : std::nullopt;
  }
};

/// Of what is computed from the times under one batch; absent where none has a plan.
Range over_batches(const Times& times,
                   const std::function<std::optional<double>(std::size_t)>& value) {
  Range range;
  for (std::size_t b = 0; b < times.size(); ++b) {
    const auto one = value(b);
    if (!one) continue;
    range.least = std::min(*one, range.least.value_or(*one));
    range.most = std::max(*one, range.most.value_or(*one));
  }
  return range;
}

std::optional<double> ratio(const std::optional<Seconds>& a, const std::optional<Seconds>& b) {
  return a && b ? std::optional(*a / *b) : std::nullopt;
}

void add_range(std::string_view id, const Range& range, const std::vector<std::string>& words,
               std::optional<double> published, Figures& figures) {
  ReproducedRow& row = figures.add(id, range.middle(), words, published);
  row.least = range.least;
  row.most = range.most;
}

/// The figure normalises by Megatron under these degrees: the first that it has.
std::size_t reference_of(const PrimeparModel& model, const Figures& figures) {
  std::size_t d = 0;
  while (!figures.has(id_of(model, kDegrees.at(d), "megatron"))) ++d;
  return d;
}

void add_rows(const PrimeparModel& model, const Times& times, Figures& figures) {
  const std::size_t reference = reference_of(model, figures);
  std::string best;
  std::array<std::string, kBatches.size()> fastest;
  double most = 0.0;
  for (std::size_t d = 0; d < kDegrees.size(); ++d) {
    const std::string name = words(kDegrees.at(d));
    const double in_steps = figures.published(id_of(model, kDegrees.at(d), "in steps"));
    if (in_steps > most) best = name;
    most = std::max(most, in_steps);
    for (std::size_t b = 0; b < kBatches.size(); ++b) {
      const auto better = [&](const Times3d& other) {
        return other.best && times[b][d].best && *other.best < *times[b][d].best;
      };
      if (std::none_of(times[b].begin(), times[b].end(), better)) fastest.at(b) = name;
    }
    const std::string megatron = id_of(model, kDegrees.at(d), "megatron");
    if (!figures.has(megatron)) continue;
    const double throughput = figures.published(megatron);
    if (d != reference) {
      add_range("baseline",
                over_batches(times,
                             [&](std::size_t b) {
                               return ratio(times[b][reference].megatron, times[b][d].megatron);
                             }),
                {model.shown, name, words(kDegrees.at(reference))}, throughput, figures);
    }
    add_range(kDegrees.at(d).tensor > kNode ? "gain" : "gain of one node",
              over_batches(times,
                           [&](std::size_t b) {
                             return ratio(times[b][d].megatron, times[b][d].best);
                           }),
              {model.shown, name}, in_steps / throughput, figures);
  }
  for (std::size_t b = 0; b < kBatches.size(); ++b) {
    figures.add("fastest", fastest.at(b) == best ? 1.0 : 0.0,
                {model.shown, fmt::format("{}", kBatches.at(b)), best, fastest.at(b)});
  }
}

void add_network(const PrimeparModel& model, const StudyContext& context, Figures& figures) {
  const std::int64_t layers = context.data.model(model.name).description.layers;
  Times times;
  for (std::size_t b = 0; b < kBatches.size(); ++b) {
    LayerQuestion question;
    question.model = model.name;
    question.gpus = kGpus;
    question.batch = kBatches.at(b);
    const Problem problem = layer_problem(question, layers, context.data);
    for (std::size_t d = 0; d < kDegrees.size(); ++d) {
      times[b][d] = times_of(problem, kDegrees.at(d));
    }
  }
  add_rows(model, times, figures);
}

}  // namespace

void add_primepar_pipelines(const StudyContext& context, Figures& figures) {
  for (const PrimeparModel& model : kPrimeparModels) add_network(model, context, figures);
}

}  // namespace plansearch
