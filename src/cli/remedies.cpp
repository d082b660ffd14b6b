// SPDX-License-Identifier: Apache-2.0
#include "remedies.hpp"

#include <fmt/format.h>

#include <functional>
#include <optional>
#include <utility>

#include "ladder.hpp"
#include "plansearch/base/error.hpp"
#include "plansearch/base/units.hpp"
#include "plansearch/report/plan_text.hpp"

namespace plansearch::cli {
namespace {

/// One thing the user could do differently.
struct Change {
  std::string words;
  Options options;
};

template <typename T>
void add_unpinned(std::vector<Change>& changes, const Options& options, const char* flag,
                  std::optional<T> DegreeOptions::*field) {
  if (!(options.degrees.*field)) return;
  Change change{fmt::format("with another {}", flag), options};
  (change.options.degrees.*field).reset();
  changes.push_back(std::move(change));
}

std::vector<Change> possible_changes(const Options& options, const Inputs& inputs) {
  std::vector<Change> changes;
  add_unpinned(changes, options, "--recompute", &DegreeOptions::recompute);
  add_unpinned(changes, options, "--zero", &DegreeOptions::zero);
  add_unpinned(changes, options, "--micro-batch", &DegreeOptions::micro_batch);
  add_unpinned(changes, options, "--sp", &DegreeOptions::sp);
  add_unpinned(changes, options, "--schedule", &DegreeOptions::schedule);
  add_unpinned(changes, options, "--vpp", &DegreeOptions::vpp);
  add_unpinned(changes, options, "--tp", &DegreeOptions::tp);
  add_unpinned(changes, options, "--pp", &DegreeOptions::pp);
  add_unpinned(changes, options, "--cp", &DegreeOptions::cp);
  add_unpinned(changes, options, "--ep", &DegreeOptions::ep);
  add_unpinned(changes, options, "--dp", &DegreeOptions::dp);
  if (options.mem_reserve) {
    changes.push_back({"without --mem-reserve", options});
    changes.back().options.mem_reserve.reset();
  }
  if (options.space == "data") {
    changes.push_back({"without --space data", options});
    changes.back().options.space.clear();
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

/// The smallest number of GPUs of the ladder on which something fits.
std::string more_gpus(const Inputs& inputs, const Options& options, int gpus, SearchRun& run) {
  const Cluster& cluster = *inputs.problem.cluster;
  for (const int count : ladder_sizes(cluster)) {
    if (count <= gpus || run.stopped()) continue;
    try {
      if (const auto best = run.best(inputs, options, count, fmt::format("{} GPUs", count))) {
        return fits(fmt::format("on {} GPUs", count), *best);
      }
    } catch (const InputError&) {
      continue;  // the pinned degrees do not divide this many
    }
  }
  return gpus < cluster.accelerators()
             ? fmt::format("more GPUs of {} do not help: tried up to all {}", cluster.name,
                           cluster.accelerators())
             : std::string();
}

}  // namespace

std::vector<std::string> find_remedies(const AskedOptions& asked, const Inputs& inputs, int gpus,
                                       SearchRun& run) {
  constexpr std::size_t kEnough = 4;
  std::vector<std::string> remedies;
  for (const Change& change : possible_changes(asked.options, inputs)) {
    if (remedies.size() + 1 >= kEnough || run.stopped()) break;
    if (const auto best = best_after(asked, change, gpus, run)) {
      remedies.push_back(fits(change.words, *best));
    }
  }
  if (run.stopped()) return remedies;
  if (std::string more = more_gpus(inputs, asked.options, gpus, run); !more.empty()) {
    remedies.push_back(std::move(more));
  }
  return remedies;
}

}  // namespace plansearch::cli
