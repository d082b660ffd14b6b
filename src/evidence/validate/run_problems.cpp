// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/names.hpp"
#include "base/units.hpp"
#include "evidence/validate/lookup.hpp"
#include "evidence/validate/run_prediction.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/plan_stages.hpp"
#include "plansearch/setting_table.hpp"
#include "question/degrees.hpp"
#include "question/usual_software.hpp"

namespace plansearch {
namespace {

/// Clusters are published for one size; runs may be larger.
std::shared_ptr<const Cluster> at_least(const std::shared_ptr<const Cluster>& cluster, int gpus) {
  const LinkTier& widest = cluster->tiers.back();
  if (gpus <= widest.size || !widest.is_fabric()) return cluster;
  auto larger = std::make_shared<Cluster>(*cluster);
  const int node = cluster->accelerators_per_node;
  larger->tiers.back().size = (gpus + node - 1) / node * node;
  return larger;
}

/// Cells that decide the network of a row without a name.
constexpr std::array kSizes{"model",      "mlp",         "layers",   "hidden",
                            "ffn_hidden", "heads",       "kv_heads", "head_dim",
                            "vocab",      "moe_experts", "moe_topk", "moe_ffn"};

/// Equal for rows that one evaluator can price: settings, sizes and order.
std::string problem_key(const RunRecord& run, const ProblemRequest& question) {
  std::string key;
  for (const SettingRow& row : setting_table()) {
    key.append(1, '\n').append(row.get(question).value_or(""));
  }
  for (const char* column : kSizes) key.append(1, '\n').append(run.cell(column));
  // An order that the framework does not list becomes one of the problem's.
  return fmt::format("{}\n{}", key, question.degrees.get(Degree::Schedule).value_or(-1));
}

/// Notes values that the row leaves open and defaults decide.
void note_filled(const RunRecord& run, const ResolvedQuestion& settled, RunCase& result) {
  for (const SettingReport& report : settled.settings) {
    const SettingRow* row = find_setting(report.key);
    const bool noted = row != nullptr &&
                       (row->setting == Setting::Attention || row->setting == Setting::Precision);
    if (!noted || row->get(run.question)) continue;
    result.filled.push_back(fmt::format("{} {}", row->key, report.value));
  }
  const PlanDegrees& plan = result.plan;
  for (const auto& [degree, matters] : {std::pair{Degree::Zero, true},
                                        {Degree::SequenceParallel, plan.tensor() > 1},
                                        {Degree::Recompute, true},
                                        {Degree::Chunks, plan.chunks > 1}}) {
    if (result.question.degrees.has(degree) || !matters) continue;
    result.filled.push_back(
        fmt::format("{} {}", row_of(degree).key, value_text(degree, degree_value(plan, degree))));
  }
}

class Preparation {
 public:
  Preparation(const ArchitectureTable& table, const ProfileFinder& finder)
      : table_(table),
        clusters_(finder.cluster),
        frameworks_(finder.framework),
        finder_(finder),
        sites_(std::make_shared<const SiteTable>(finder.sites)) {}

  /// Notes the reason of a row that is inexpressible.
  void add(PredictedRun& row) {
    const RunRecord& run = row.run;
    RunPrediction& prediction = row.predicted;
    try {
      if (!run.unknown.empty()) {
        throw refusal(fmt::format("unknown: {}", fmt::join(run.unknown, ", ")));
      }
      const auto& machine = clusters_.get(run.hardware);
      const ChipSoftware* chip = software_of(finder_.chips, machine->accelerator.name);
      const std::shared_ptr<const Framework> framework = framework_of(run, chip);
      RunCase run_case = make_case(run, table_, *framework);
      assume_precision(chip, run.framework, run_case);
      prediction.plan = run_case.plan;
      prediction.filled = run_case.filled;
      RunGroup& group = join(run, run_case, {machine, nullptr, framework, sites_});
      prediction.plan = run_case.plan;
      prediction.filled = run_case.filled;
      prediction.regimes = regimes_of(run, run_case, *machine);
      group.rows.emplace_back(&row, std::move(run_case));
    } catch (const InputError& error) {
      if (!is_of_row(error)) throw;
      prediction.reason = error.what();
    }
  }

  [[nodiscard]] std::vector<RunGroup> groups() && { return std::move(groups_); }

 private:
  /// The release that the row states, else the one that runs on the chip.
  std::shared_ptr<const Framework> framework_of(const RunRecord& run, const ChipSoftware* chip) {
    const std::string stated = release_of(run, table_);
    // A release is exactly what the row says.
    if (chip == nullptr || stated != run.framework) return frameworks_.get(stated);
    const bool default_one = run.framework_assumed && chip->framework;
    const std::string& name = default_one ? *chip->framework : run.framework;
    std::shared_ptr<const Framework>& usual = usual_[{chip, name}];
    if (!usual) {
      usual = std::make_shared<const Framework>(usual_framework(
          name, chip, [&](std::string_view one) { return *frameworks_.get(std::string(one)); }));
    }
    return usual;
  }

  /// A row without a number format ran what most runs of its framework do on the chip.
  static void assume_precision(const ChipSoftware* chip, const std::string& framework,
                               RunCase& run_case) {
    if (chip == nullptr || run_case.question.precision) return;
    const auto usual = chip->precision.find(framework);
    if (usual == chip->precision.end()) return;
    run_case.question.precision = run_case.model.moe ? usual->second.experts : usual->second.dense;
    run_case.open_precision = usual->second.spread;
    run_case.filled.push_back("precision " + *run_case.question.precision);
  }

  /// Settles the question of a row as that of a command line; rows that ask the same share it.
  RunGroup& join(const RunRecord& run, RunCase& run_case, ProblemFiles files) {
    ProblemRequest& question = run_case.question;
    question.hardware = run.hardware;
    question.model = run_case.model.name;
    question.framework = files.framework->name;
    question.gpus = static_cast<int>(run.gpus);
    question.site = "tuned";  // sites are factors on what is priced here (site_fit.hpp)
    const std::string key = problem_key(run, question);
    auto known = group_of_.find(key);
    if (known == group_of_.end()) {
      files.cluster = at_least(files.cluster, *question.gpus);
      files.model = std::make_shared<const ShippedModel>(ShippedModel{run_case.model});
      groups_.push_back({resolve_question(question, files), {}});
      known = group_of_.emplace(key, groups_.size() - 1).first;
    }
    RunGroup& group = groups_[known->second];
    run_case.plan = plan_from_degrees(question.degrees, group.settled.problem, std::nullopt);
    note_filled(run, group.settled, run_case);
    return group;
  }

  const ArchitectureTable& table_;
  Lookup<Cluster> clusters_;
  Lookup<Framework> frameworks_;
  /// As they run on a chip, by the entry of the chip and their name.
  std::map<std::pair<const ChipSoftware*, std::string>, std::shared_ptr<const Framework>> usual_;
  const ProfileFinder& finder_;
  std::shared_ptr<const SiteTable> sites_;
  std::map<std::string, std::size_t> group_of_;
  std::vector<RunGroup> groups_;
};

std::int64_t count_in(std::string_view text, const std::string& whole) {
  constexpr std::int64_t kMost = 100'000;
  const auto value = parse_as<std::int64_t>(text);
  if (value && *value >= 0 && *value <= kMost) return *value;
  throw refusal(fmt::format("stage_layers \"{}\": not layers of chunks, such as 4x15,1", whole));
}

std::vector<std::vector<BlockRun>> chunks_of(const Network& network,
                                             const std::vector<std::int64_t>& layers) {
  std::vector<std::vector<BlockRun>> chunks(layers.size());
  std::size_t chunk = 0;
  std::int64_t left = layers.front();
  std::int64_t to_come = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  const auto add = [&](std::size_t block, std::int64_t count) {
    std::vector<BlockRun>& runs = chunks[chunk];
    if (!runs.empty() && runs.back().block == block) {
      runs.back().count += count;
    } else {
      runs.push_back({block, count});
    }
  };
  for (const BlockRun& run : network.order) {
    if (!is_layer(network.blocks[run.block].kind)) {
      add(run.block, run.count);
      continue;
    }
    for (std::int64_t count = run.count; count > 0;) {
      while (left == 0 && chunk + 1 < chunks.size()) left = layers[++chunk];
      const std::int64_t taken = std::min(left, count);
      if (taken == 0) break;  // more layers than were listed
      add(run.block, taken);
      left -= taken;
      count -= taken;
      to_come -= taken;
    }
    if (to_come == 0) chunk = chunks.size() - 1;  // a prediction module, the head
  }
  return chunks;
}

}  // namespace

std::vector<RunGroup> group_by_problem(std::vector<PredictedRun>& rows,
                                       const ArchitectureTable& table,
                                       const ProfileFinder& finder) {
  Preparation preparation(table, finder);
  for (PredictedRun& row : rows) preparation.add(row);
  return std::move(preparation).groups();
}

std::vector<std::int64_t> read_stage_layers(const std::string& text) {
  std::vector<std::int64_t> layers;
  for (const std::string& part : split(text, ", ")) {
    const std::size_t times = part.find('x');
    const std::int64_t own = count_in(std::string_view(part).substr(0, times), text);
    const std::int64_t copies =
        times == std::string::npos ? 1 : count_in(std::string_view(part).substr(times + 1), text);
    layers.insert(layers.end(), static_cast<std::size_t>(copies), own);
  }
  if (layers.empty()) count_in("", text);
  return layers;
}

std::variant<ParallelPlan, Infeasible> with_stage_layers(const PlanEvaluator& evaluator,
                                                         const PlanDegrees& plan,
                                                         const std::vector<std::int64_t>& layers) {
  const Network& network = *evaluator.problem().network;
  const auto chunks =
      static_cast<std::size_t>(plan.pipeline) * static_cast<std::size_t>(plan.chunks);
  const std::int64_t listed = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (layers.size() != chunks || listed != layer_count(network)) {
    return Infeasible{
        .obstacle = Obstacle::MoreStagesThanLayers,
        .detail = fmt::format("stage_layers lists {} layers of {} chunks, the run has "
                              "{} of {}",
                              listed, layers.size(), layer_count(network), chunks)};
  }
  const auto contents = chunks_of(network, layers);
  std::vector<StageDescription> stages(static_cast<std::size_t>(plan.pipeline));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].degrees = plan;
    stages[s].chunks.clear();
    for (std::size_t c = s; c < contents.size(); c += stages.size()) {
      stages[s].chunks.push_back(contents[c]);
    }
  }
  return plan_of_stages(stages,
                        Order{.schedule = plan.schedule, .micro_batches = plan.micro_batches},
                        plan.global_batch(), *evaluator.problem().framework, network);
}

}  // namespace plansearch
