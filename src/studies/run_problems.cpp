// SPDX-License-Identifier: Apache-2.0
#include "studies/run_problems.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <map>
#include <memory>
#include <utility>
#include <variant>

#include "cost/compute_cost.hpp"
#include "plansearch/error.hpp"
#include "problem/framework_flags.hpp"
#include "studies/run_groups.hpp"

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

/// Clusters are published for one size; runs may be larger.
std::shared_ptr<const Cluster> at_least(const std::shared_ptr<const Cluster>& cluster, int gpus) {
  const LinkTier& widest = cluster->tiers.back();
  if (gpus <= widest.size || !widest.is_fabric()) return cluster;
  auto larger = std::make_shared<Cluster>(*cluster);
  const int node = cluster->accelerators_per_node;
  larger->tiers.back().size = (gpus + node - 1) / node * node;
  return larger;
}

/// The framework as measured runs have it: it ran their orders, whatever its file lists, and may
/// be set up and implemented in other ways.
std::shared_ptr<const Framework> as_measured(const Framework& usual, const Cluster& cluster,
                                             const RunRecord& run, DataType precision) {
  auto framework = std::make_shared<Framework>(usual);
  framework->schedules = schedule_names();
  refuse_contradictions(run.software, run.attention, precision);
  apply_software(*framework, cluster.software, run.software, precision);
  if (!run.overlap.empty()) apply_overlap(*framework, run.overlap);
  apply_offload(*framework, cluster, run.cell("offload"));
  return framework;
}

std::string problem_key(const RunRecord& run, const RunCase& run_case) {
  static constexpr std::array kColumns{
      "hw",         "framework", "precision",      "gpus",        "model",      "mlp",
      "attention",  "layers",    "hidden",         "ffn_hidden",  "heads",      "kv_heads",
      "head_dim",   "vocab",     "seq_len",        "moe_experts", "moe_topk",   "moe_ffn",
      "main_grads", "overlap",   "implementation", "kernels",     "fp8_recipe", "cuda_graphs",
      "offload"};
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

  PreparedRuns prepare(const std::vector<RunRecord>& runs,
                       std::vector<RunPrediction>& predictions) {
    prepared_.cases.resize(runs.size());
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (auto reason = add(i, runs[i], predictions[i])) predictions[i].reason = std::move(*reason);
      predictions[i].filled = prepared_.cases[i].filled;
    }
    return std::move(prepared_);
  }

 private:
  /// The reason why the row is inexpressible, if it is.
  std::optional<std::string> add(std::size_t row, const RunRecord& run, RunPrediction& prediction) {
    if (!run.unknown.empty()) {
      return fmt::format("unknown: {}", fmt::join(run.unknown, ", "));
    }
    const auto& cluster = clusters_.get(run.hardware);
    if (const auto* reason = std::get_if<std::string>(&cluster)) return *reason;
    const auto& framework = frameworks_.get(run.framework);
    if (const auto* reason = std::get_if<std::string>(&framework)) return *reason;
    const auto& machine = std::get<std::shared_ptr<const Cluster>>(cluster);
    const auto& rules = std::get<std::shared_ptr<const Framework>>(framework);
    auto made = make_case(run, table_, *rules);
    if (const auto* refusal = std::get_if<Inexpressible>(&made)) return refusal->reason;
    RunCase& run_case = prepared_.cases[row] = std::get<RunCase>(std::move(made));
    prediction.regimes = regimes_of(run, run_case, *machine);
    prediction.plan = run_case.plan;
    if (auto reason = missing_rate(*machine, *rules, run_case)) return reason;
    try {
      join(row, run, run_case, machine, rules);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::nullopt;
  }

  void join(std::size_t row, const RunRecord& run, const RunCase& run_case,
            const std::shared_ptr<const Cluster>& cluster,
            const std::shared_ptr<const Framework>& framework) {
    const std::string key = problem_key(run, run_case);
    auto place = group_of_.find(key);
    if (place == group_of_.end()) {
      RunGroup group;
      Problem& p = group.problem;
      p.gpus = static_cast<int>(run.gpus);
      p.cluster = at_least(cluster, p.gpus);
      p.framework = as_measured(*framework, *cluster, run, run_case.precision);
      p.model = std::make_shared<const ModelDescription>(run_case.model);
      p.precision = run_case.precision;
      p.global_batch = run_case.plan.global_batch();
      p.seq_len = run.seq_len;
      group.network = run_case.network;
      group.network.implementation = p.framework->implementation;
      place = group_of_.emplace(key, prepared_.groups.size()).first;
      prepared_.groups.push_back(std::move(group));
    }
    prepared_.groups[place->second].rows.push_back(row);
  }

  const ArchitectureTable& table_;
  Finder<Cluster> clusters_;
  Finder<Framework> frameworks_;
  std::map<std::string, std::size_t> group_of_;
  PreparedRuns prepared_;
};

}  // namespace

PreparedRuns prepare_runs(const std::vector<RunRecord>& runs, const ArchitectureTable& table,
                          const ProfileFinder& finder, std::vector<RunPrediction>& predictions) {
  return Preparation(table, finder).prepare(runs, predictions);
}

}  // namespace plansearch
