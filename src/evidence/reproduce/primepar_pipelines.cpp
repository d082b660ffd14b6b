// SPDX-License-Identifier: Apache-2.0
// PrimePar, section 6.4: 32 GPUs as pipeline x data x tensor, whole networks, Megatron's cuts
// beside operators in steps under the same degrees.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
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

/// Id of a published throughput, "in steps" or by "megatron".
std::string id_of(const PrimeparModel& model, const Degrees3d& degrees, const char* what) {
  return fmt::format("throughput {} {} {}", model.name, words(degrees), what);
}

/// A setting that is not published is a range: the number of micro-batches of one sequence (figure
/// 9 has batches of 8 and 16), and how rings over whole nodes use a card.
struct Setting {
  std::int64_t batch;
  double full_node;
};
std::vector<Setting> settings(const Figures& figures) {
  std::vector<Setting> all;
  for (const std::int64_t batch : {8, 16}) {
    for (const char* rate : {"full node least", "full node most"}) {
      all.push_back({batch, figures.published(rate)});
    }
  }
  return all;
}

using Times = std::array<Times3d, kDegrees.size()>;  ///< by degrees, under one setting

/// The prediction over the settings, with its range.
struct Range {
  std::optional<double> least{};
  std::optional<double> most{};
  [[nodiscard]] std::optional<double> middle() const {
    return least ? std::optional(std::sqrt(*least * *most)) : std::nullopt;
  }
};

/// Prediction from the times under each setting; absent where none has a plan.
Range over_settings(const std::vector<Times>& times,
                    const std::function<std::optional<double>(const Times&)>& value) {
  Range range;
  for (const Times& one : times) {
    const auto under = value(one);
    if (!under) continue;
    range.least = std::min(*under, range.least.value_or(*under));
    range.most = std::max(*under, range.most.value_or(*under));
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
      add_range("baseline", over_settings(times, over_reference),
                {model.shown, name, words(kDegrees.at(reference))}, throughput, figures);
    }
    const auto gain = [&](const Times& one) { return ratio(one.at(d).megatron, one.at(d).best); };
    add_range(kDegrees.at(d).tensor > kPrimeparNode ? "gain" : "gain of one node",
              over_settings(times, gain), {model.shown, name}, in_steps / throughput, figures);
  }
  std::vector<std::string> found;
  double right = 0.0;
  for (const Times& one : times) {
    const std::size_t fastest = fastest_of(one);
    if (fastest == best) right += 1.0;
    const std::string name = words(kDegrees.at(fastest));
    if (std::ranges::find(found, name) == found.end()) found.push_back(name);
  }
  figures.add("fastest", right / static_cast<double>(times.size()),
              {model.shown, words(kDegrees.at(best)), fmt::format("{}", fmt::join(found, ", "))});
}

void add_network(const PrimeparModel& model, const StudyContext& context, Figures& figures) {
  const std::int64_t layers = context.data.model(model.name).description.layers;
  const std::vector<Setting> all = settings(figures);
  std::vector<Times> times(all.size());
  parallel_for(all.size(), context.threads, [&](std::size_t i) {
    LayerQuestion question;
    question.model = model.name;
    question.gpus = kGpus;
    question.batch = all[i].batch;
    question.full_node = all[i].full_node;
    const Problem problem = layer_problem(question, layers, context.data);
    for (std::size_t d = 0; d < kDegrees.size(); ++d) {
      times[i].at(d) = times_of(problem, kDegrees.at(d));
    }
  });
  add_rows(model, times, figures);
}

}  // namespace

void add_primepar_pipelines(const StudyContext& context, Figures& figures) {
  for (const PrimeparModel& model : kPrimeparModels) add_network(model, context, figures);
}

}  // namespace plansearch
