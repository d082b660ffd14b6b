// SPDX-License-Identifier: Apache-2.0
#include "cli/remedies.hpp"

#include <fmt/format.h>

#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "base/units.hpp"
#include "cli/ladder.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "report/plan_text.hpp"

namespace plansearch::cli {
namespace {

/// One thing the user could do differently.
struct Change {
  std::string words;
  Options options;
};

/// In the order they are tried: what changes the plan least comes first.
constexpr std::array kUnpinned{Degree::Recompute,        Degree::Zero,     Degree::MicroBatch,
                               Degree::SequenceParallel, Degree::Schedule, Degree::Chunks,
                               Degree::TensorOut,        Degree::Pipeline, Degree::Context,
                               Degree::Expert,           Degree::Data};

std::vector<Change> possible_changes(const Options& options, const Inputs& inputs) {
  std::vector<Change> changes;
  for (const Degree degree : kUnpinned) {
    if (!options.degrees.has(degree)) continue;
    changes.push_back(
        {fmt::format("with another {}", flag_of(key_of(degree, options.degrees))), options});
    changes.back().options.degrees.release(degree);
  }
  if (options.mem_reserve) {
    changes.push_back({"without --mem-reserve", options});
    changes.back().options.mem_reserve.reset();
  }
  if (options.space == "data") {
    changes.push_back({"without --space data", options});
    changes.back().options.space.clear();
  }
  if (inputs.problem.model->training.optimizer == OptimizerKind::Adam) {
    changes.push_back({"with --optimizer muon, one moment instead of two,", options});
    changes.back().options.optimizer = "muon";
    changes.push_back({"with --optimizer adafactor, no moments,", options});
    changes.back().options.optimizer = "adafactor";
  }
  if (inputs.problem.seq_len >= 2048 && inputs.problem.model->stack != StackKind::Vision) {
    const std::int64_t half = inputs.problem.seq_len / 2;
    changes.push_back({fmt::format("with --seq-len {}", half), options});
    changes.back().options.seq_len = half;
  }
  return changes;
}

/// The best plan after a change; a change that makes the question illegal helps nobody.
std::optional<PlanCandidate> best_after(const AskedOptions& asked, const Change& change, int gpus,
                                        SearchRun& run) {
  try {
    const Inputs inputs = load_inputs({change.options, asked.from_plan, {}});
    return run.best(inputs, change.options, gpus, change.words);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

std::string fits(const std::string& how, const PlanCandidate& best) {
  return fmt::format("{} it fits: {} takes {} per step", how, short_plan(best.plan),
                     to_text(best.estimate.step.total()));
}

/// Another number of GPUs; one that the pinned degrees do not divide helps nobody.
std::optional<PlanCandidate> best_on(const Inputs& inputs, const Options& options, int gpus,
                                     SearchRun& run) {
  try {
    return run.best(inputs, options, gpus, fmt::format("{} GPUs", gpus));
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// The smallest size on which something fits, of the ladder and the size half-way below it.
std::optional<std::string> more_gpus(const Inputs& inputs, const Options& options, int gpus,
                                     const std::string& words, SearchRun& run) {
  const Cluster& cluster = *inputs.problem.cluster;
  int smaller = gpus;
  for (const int count : ladder_sizes(cluster)) {
    if (count <= gpus) continue;
    if (run.stopped()) return std::nullopt;
    const auto best = best_on(inputs, options, count, run);
    if (!best) {
      smaller = count;
      continue;
    }
    const int between = (smaller + count) / 2;
    const bool whole = between > smaller && between % cluster.accelerators_per_node == 0;
    const auto fewer = whole ? best_on(inputs, options, between, run) : std::nullopt;
    return fits(fmt::format("on {} GPUs{}", fewer ? between : count, words),
                fewer ? *fewer : *best);
  }
  return std::nullopt;
}

/// Every degree free again; nothing when none was pinned.
std::optional<Options> unpinned(const Options& options) {
  if (options.degrees.empty()) return std::nullopt;
  Options free = options;
  free.degrees = {};
  return free;
}

/// More GPUs, with the degrees asked for or, failing that, with any.
std::string remedy_by_gpus(const Inputs& inputs, const Options& options, int gpus, SearchRun& run) {
  if (auto found = more_gpus(inputs, options, gpus, "", run)) return *std::move(found);
  const auto free = unpinned(options);
  if (free) {
    if (auto found = more_gpus(inputs, *free, gpus, " and with other degrees", run)) {
      return *std::move(found);
    }
  }
  const Cluster& cluster = *inputs.problem.cluster;
  if (run.stopped() || gpus >= cluster.accelerators()) return {};
  return fmt::format("more GPUs of {} do not help: tried up to all {}", cluster.name,
                     cluster.accelerators());
}

}  // namespace

std::vector<std::string> find_remedies(const AskedOptions& asked, const Inputs& inputs, int gpus,
                                       SearchRun& run) {
  constexpr std::size_t kEnough = 4;
  std::vector<std::string> remedies;
  const auto attempt = [&](const Change& change) {
    if (remedies.size() + 1 >= kEnough || run.stopped()) return;
    if (const auto best = best_after(asked, change, gpus, run)) {
      remedies.push_back(fits(change.words, *best));
    }
  };
  for (const Change& change : possible_changes(asked.options, inputs)) attempt(change);
  const auto free = unpinned(asked.options);
  if (remedies.empty() && free) attempt({"with other degrees", *free});
  if (run.stopped()) return remedies;
  if (std::string more = remedy_by_gpus(inputs, asked.options, gpus, run); !more.empty()) {
    remedies.push_back(std::move(more));
  }
  return remedies;
}

}  // namespace plansearch::cli
