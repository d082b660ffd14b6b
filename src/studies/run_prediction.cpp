// SPDX-License-Identifier: Apache-2.0
// Computes: step time, interval, memory and feasibility of every measured run.
// Source: the evaluator that also prices searched plans; nothing here knows a kernel.
// Assumes: rows with the same sizes, machine, framework and batch are one problem.
// Units: seconds, bytes.
// Checked by: tests/unit/studies/run_prediction_test.cpp
#include "plansearch/studies/run_prediction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "plansearch/base/error.hpp"
#include "plansearch/base/parallel.hpp"
#include "plansearch/base/units.hpp"
#include "plansearch/cost/compute_cost.hpp"
#include "plansearch/evaluate/framework_constants.hpp"
#include "plansearch/evaluate/plan_evaluator.hpp"
#include "plansearch/studies/run_case.hpp"
#include "plansearch/studies/run_groups.hpp"

namespace plansearch {
namespace {

/// A profile that was found, or why not.
template <typename T>
using Found = std::variant<std::shared_ptr<const T>, std::string>;

template <typename T>
class Finder {
 public:
  explicit Finder(const std::function<T(std::string_view)>& find) : find_(find) {}

  const Found<T>& get(const std::string& name) {
    const auto known = found_.find(name);
    if (known != found_.end()) return known->second;
    return found_.emplace(name, look(name)).first->second;
  }

 private:
  Found<T> look(const std::string& name) const {
    try {
      return std::make_shared<const T>(find_(name));
    } catch (const InputError& error) {
      // A wrong file is the user's to mend; only an unknown name makes a row inexpressible.
      if (!error.where().file.empty()) throw;
      return std::string(error.what());
    }
  }

  const std::function<T(std::string_view)>& find_;
  std::map<std::string, Found<T>> found_;
};

/// Rows of one problem share an evaluator and its profiles.
struct Group {
  Problem problem;
  NetworkOptions network;
  std::vector<std::size_t> rows;
};

struct Prepared {
  std::vector<RunCase> cases;  ///< by row; meaningless where the prediction says inexpressible
  std::vector<Group> groups;
};

/// Clusters are published for one size; runs may be larger.
std::shared_ptr<const Cluster> at_least(const std::shared_ptr<const Cluster>& cluster, int gpus) {
  const LinkTier& widest = cluster->tiers.back();
  if (gpus <= widest.size || !widest.is_fabric()) return cluster;
  auto larger = std::make_shared<Cluster>(*cluster);
  const int node = cluster->accelerators_per_node;
  larger->tiers.back().size = (gpus + node - 1) / node * node;
  return larger;
}

std::string problem_key(const RunRecord& run, const RunCase& run_case) {
  static constexpr std::array kColumns{
      "hw",        "framework", "precision", "gpus",        "model",    "mlp",
      "attention", "layers",    "hidden",    "ffn_hidden",  "heads",    "kv_heads",
      "head_dim",  "vocab",     "seq_len",   "moe_experts", "moe_topk", "moe_ffn"};
  std::string key = fmt::format("{}", run_case.plan.global_batch());
  for (const char* column : kColumns) key.append(1, '\n').append(run.cell(column));
  return key;
}

std::optional<std::string> missing_rate(const Cluster& cluster, const Framework& framework,
                                        const RunCase& run_case) {
  const auto policy = framework.precision.find(run_case.precision);
  if (policy == framework.precision.end()) {
    return fmt::format("{} does not train in {}", framework.name, to_text(run_case.precision));
  }
  const Accelerator& chip = cluster.accelerator;
  for (const DataType type : {policy->second.matmul, policy->second.activation}) {
    try {
      require_data_type(chip, type);
    } catch (const InputError& error) {
      return error.what();
    }
  }
  if (run_case.network.attention == AttentionKind::Fused && !chip.kernels.attention_forward) {
    return fmt::format("no rates of a fused attention kernel for {}", chip.name);
  }
  return std::nullopt;
}

class Preparation {
 public:
  Preparation(const ArchitectureTable& table, const ProfileFinder& finder)
      : table_(table), clusters_(finder.cluster), frameworks_(finder.framework) {}

  Prepared prepare(const std::vector<RunRecord>& runs, std::vector<RunPrediction>& predictions) {
    prepared_.cases.resize(runs.size());
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (auto reason = add(i, runs[i], predictions[i])) predictions[i].reason = std::move(*reason);
      predictions[i].filled = prepared_.cases[i].filled;
    }
    return std::move(prepared_);
  }

 private:
  /// The reason why the row is inexpressible, if it is.
  std::optional<std::string> add(std::size_t row, const RunRecord& run,
                                 RunPrediction& prediction) {
    if (!run.unknown.empty()) {
      return fmt::format("unknown: {}", fmt::join(run.unknown, ", "));
    }
    const auto& cluster = clusters_.get(run.hardware);
    if (const auto* reason = std::get_if<std::string>(&cluster)) return *reason;
    const auto& framework = frameworks_.get(run.framework);
    if (const auto* reason = std::get_if<std::string>(&framework)) return *reason;
    const auto& machine = std::get<std::shared_ptr<const Cluster>>(cluster);
    const auto& rules = std::get<std::shared_ptr<const Framework>>(framework);
    auto made = make_case(run, table_, rules->name);
    if (const auto* refusal = std::get_if<Inexpressible>(&made)) return refusal->reason;
    RunCase& run_case = prepared_.cases[row] = std::get<RunCase>(std::move(made));
    prediction.regimes = regimes_of(run, run_case, *machine);
    if (auto reason = missing_rate(*machine, *rules, run_case)) return reason;
    join(row, run, run_case, machine, rules);
    return std::nullopt;
  }

  void join(std::size_t row, const RunRecord& run, const RunCase& run_case,
            const std::shared_ptr<const Cluster>& cluster,
            const std::shared_ptr<const Framework>& framework) {
    const auto [place, added] =
        group_of_.emplace(problem_key(run, run_case), prepared_.groups.size());
    if (added) {
      Group group;
      Problem& p = group.problem;
      p.gpus = static_cast<int>(run.gpus);
      p.cluster = at_least(cluster, p.gpus);
      p.framework = framework;
      p.model = std::make_shared<const ModelDescription>(run_case.model);
      p.precision = run_case.precision;
      p.global_batch = run_case.plan.global_batch();
      p.seq_len = run.seq_len;
      group.network = run_case.network;
      prepared_.groups.push_back(std::move(group));
    }
    prepared_.groups[place->second].rows.push_back(row);
  }

  const ArchitectureTable& table_;
  Finder<Cluster> clusters_;
  Finder<Framework> frameworks_;
  std::map<std::string, std::size_t> group_of_;
  Prepared prepared_;
};

/// What a published figure counts, from the parts of a prediction.
Bytes memory_of_kind(const DeviceMemory& device, std::optional<MemoryKind> kind,
                     const FrameworkConstants& constants, Bytes limit) {
  // Cached blocks go back to the driver before an allocation fails.
  const Bytes needed = device.memory.total();
  const Bytes held = std::max(needed, std::min(needed + device.cached, limit));
  switch (kind.value_or(MemoryKind::Allocated)) {
    case MemoryKind::Allocated:
      return needed - constants.memory_context;
    case MemoryKind::Reserved:
    case MemoryKind::TorchPeak:
      return held - constants.memory_context;
    case MemoryKind::NvidiaSmi:
      return held;
  }
  throw InternalError("unknown memory kind");
}

class GroupPricer {
 public:
  GroupPricer(const Problem& problem, const ArchitectureTable& table)
      : evaluator_(problem),
        constants_(framework_constants(*problem.framework)),
        reporter_(table.defaults(problem.framework->name).memory),
        workspace_(PlanEvaluator::make_workspace()) {
    const double flops = 3.0 * model_forward_flops(*problem.network).value();
    const double rate = evaluator_.matmul_peak().value() * problem.gpus;
    peak_seconds_ = flops * static_cast<double>(problem.global_batch) / rate;
  }

  /// A broken invariant is reported with its row; the other rows are priced all the same.
  void price(const RunRecord& run, const RunCase& run_case, RunPrediction& prediction) {
    try {
      price_row(run, run_case, prediction);
    } catch (const InternalError& error) {
      std::vector<std::string> regimes = std::move(prediction.regimes);
      prediction = RunPrediction{};
      prediction.filled = run_case.filled;
      prediction.regimes = std::move(regimes);
      prediction.reason = fmt::format("internal error: {}", error.what());
    }
  }

 private:
  void price_row(const RunRecord& run, const RunCase& run_case, RunPrediction& prediction) {
    prediction.peak_seconds = peak_seconds_ * run_case.batch_share;
    const ParallelPlan& plan = run_case.plan;
    if (const auto illegal = evaluator_.legality(plan)) {
      prediction.verdict = Verdict::Illegal;
      prediction.reason =
          illegal->detail.empty() ? std::string(to_text(illegal->obstacle)) : illegal->detail;
      // What only the framework's rules forbid can still be priced: the run may know a newer one.
      if (illegal->obstacle != Obstacle::FrameworkForbids) return;
    }
    const auto profile = evaluator_.profile(plan);
    const Estimate estimate = evaluator_.simulate(*profile, plan, *workspace_);
    const Seconds time = estimate.step.total() * run_case.batch_share;
    prediction.step_time = time;
    prediction.parts = estimate.step;
    prediction.p10 = time * estimate.relative_p10;
    prediction.p90 = time * estimate.relative_p90;
    const int stage = reporter_ == MemoryReporter::LastStage ? plan.pipeline - 1
                                                             : estimate.worst_memory_stage;
    const DeviceMemory reported = evaluator_.stage_memory(*profile, plan, stage, *workspace_);
    prediction.memory = memory_of_kind(reported, run.memory_kind, constants_,
                                       evaluator_.memory_limit());
    prediction.needed = run.recompute.empty() ? least_memory(plan) : estimate.memory.total();
    judge(estimate, run_case, prediction);
  }

  /// An unknown switch condemns nobody: what the plan needs with the recompute that needs least.
  Bytes least_memory(ParallelPlan plan) {
    Bytes least = evaluator_.simulate(*evaluator_.profile(plan), plan, *workspace_).memory.total();
    for (const Recompute recompute : {Recompute::Selective, Recompute::Full}) {
      plan.recompute = recompute;
      if (evaluator_.obstacle(plan)) continue;
      least = std::min(least, evaluator_.simulate(*evaluator_.profile(plan), plan, *workspace_)
                                  .memory.total());
    }
    return least;
  }

  void judge(const Estimate& estimate, const RunCase& run_case, RunPrediction& prediction) const {
    prediction.verdict = Verdict::Feasible;
    if (run_case.batch_share != 1.0) {
      prediction.verdict = Verdict::Illegal;
      prediction.reason = "the global batch is no multiple of dp times the micro-batch";
    } else if (*prediction.needed > evaluator_.memory_limit()) {
      prediction.verdict = Verdict::OutOfMemory;
      prediction.reason =
          fmt::format("stage {} needs {} of {}", estimate.worst_memory_stage,
                      to_text(*prediction.needed), to_text(evaluator_.memory_limit()));
    }
  }

  PlanEvaluator evaluator_;
  FrameworkConstants constants_;
  MemoryReporter reporter_;
  EvaluationWorkspacePtr workspace_;
  double peak_seconds_ = 0.0;
};

}  // namespace

std::string_view to_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::Feasible:
      return "feasible";
    case Verdict::Illegal:
      return "illegal";
    case Verdict::OutOfMemory:
      return "out of memory";
    case Verdict::Inexpressible:
      return "inexpressible";
  }
  throw InternalError("unknown verdict");
}

std::optional<double> RunPrediction::mfu(Seconds time) const {
  if (!peak_seconds) return std::nullopt;
  return *peak_seconds / time.value();
}

std::vector<RunPrediction> predict_runs(const std::vector<RunRecord>& runs,
                                        const ArchitectureTable& table, const ProfileFinder& finder,
                                        int threads) {
  std::vector<RunPrediction> predictions(runs.size());
  const Prepared prepared = Preparation(table, finder).prepare(runs, predictions);
  parallel_for(prepared.groups.size(), threads, [&](std::size_t index) {
    const Group& group = prepared.groups[index];
    Problem problem = group.problem;
    problem.network = std::make_shared<const Network>(build_network(*problem.model, group.network));
    GroupPricer pricer(problem, table);
    for (const std::size_t row : group.rows) {
      pricer.price(runs[row], prepared.cases[row], predictions[row]);
    }
  });
  return predictions;
}

}  // namespace plansearch
