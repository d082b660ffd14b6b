// SPDX-License-Identifier: Apache-2.0
#include "exporters/export_request.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "base/overrides.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

constexpr std::array<std::string_view, kOverlapCount> kOverlapNames{
    "overlap grad",   "overlap param",   "overlap pipeline",
    "overlap tensor", "overlap context", "overlap expert"};

std::optional<Degree> degree_of(Setting setting) {
  const auto index = static_cast<std::size_t>(setting);
  return index < kDegreeCount ? std::optional(static_cast<Degree>(index)) : std::nullopt;
}

/// How a target that has no line for a setting takes it, where the user chose its value.
struct ChosenSetting {
  plansearch::Setting setting;
  bool said = false;          ///< it has another line above, or changes nothing that a target runs
  std::string_view silent{};  ///< the value that programs have which know nothing of it
};
constexpr bool kSaid = true;
using Chosen = plansearch::Setting;
constexpr ChosenSetting kChosen[] = {
    {Chosen::Hardware, kSaid},
    {Chosen::Model, kSaid},
    {Chosen::Framework, kSaid},
    {Chosen::Gpus, kSaid},
    {Chosen::Batch, kSaid},
    {Chosen::SequenceLength, kSaid},
    {Chosen::Task, false, "pretrain"},
    {Chosen::Packing},
    {Chosen::Images},
    {Chosen::Precision, kSaid},
    {Chosen::Optimizer, kSaid},
    {Chosen::Attention, kSaid},
    {Chosen::RankOrder, kSaid},
    {Chosen::Overlap, kSaid},
    {Chosen::Implementation},
    {Chosen::Kernels},
    {Chosen::MainGradients},
    {Chosen::Fp8Recipe},
    {Chosen::CudaGraphs, false, "0"},
    {Chosen::DelayWeightGradients, false, "0"},
    {Chosen::OptimizerInBackward, false, "0"},
    {Chosen::PagedStates, false, "0"},
    {Chosen::Routing},
    {Chosen::LoraRank},
    {Chosen::LoraTargets},
    {Chosen::BasePrecision},
    {Chosen::OptimizerStates},
    {Chosen::Tokens, kSaid},
    {Chosen::Site, kSaid},
    {Chosen::MemoryReserve, kSaid},
    {Chosen::Rollout, kSaid},
    {Chosen::MemoryRisk, kSaid},
    {Chosen::Passes, false, "none"},
    {Chosen::MemoryCap},
    {Chosen::Set},
    {Chosen::Operators, kSaid},
};
constexpr bool has_every_setting() {
  for (std::size_t i = 0; i < std::size(kChosen); ++i) {
    if (kChosen[i].setting != static_cast<Chosen>(i)) return false;
  }
  return std::size(kChosen) == plansearch::kSettingCount;
}
static_assert(has_every_setting());

const SettingRow* chosen_row(Setting setting) {
  if (setting < Setting::FirstChosen) return nullptr;
  return &setting_table().at(static_cast<std::size_t>(setting) -
                             static_cast<std::size_t>(Setting::FirstChosen));
}

bool chosen_matters(const SettingRow& row, const ExportRequest& h) {
  const auto value = row.get(h.chosen);
  if (!value || kChosen[static_cast<std::size_t>(row.setting)].said) return false;
  // Another machine is priced, and another model exported; only what the program does is not its.
  return row.setting != plansearch::Setting::Set ||
         !overrides_of(*value, OverriddenFile::Framework).empty();
}

std::optional<Overlap> overlap_of(Setting setting) {
  if (setting < Setting::FirstOverlap || setting >= Setting::FirstChosen) return std::nullopt;
  return static_cast<Overlap>(static_cast<std::size_t>(setting) -
                              static_cast<std::size_t>(Setting::FirstOverlap));
}

/// "grad=0" chooses one kind, other words all of them.
bool is_chosen(Overlap overlap, const ExportRequest& h) {
  if (!h.chosen.overlap) return false;
  const std::string& text = *h.chosen.overlap;
  const std::string_view name = kOverlapNames.at(static_cast<std::size_t>(overlap));
  return text.find('=') == std::string::npos ||
         text.find(fmt::format("{}=", name.substr(name.find(' ') + 1))) != std::string::npos;
}

/// The words of --rank-order, and how many ranks there are.
struct AxisWord {
  Axis axis;
  std::string_view word;
  int PlanDegrees::*ranks;
};
constexpr std::array kAxes{AxisWord{Axis::In, "tp_x", &PlanDegrees::tensor_in},
                           AxisWord{Axis::Out, "tp", &PlanDegrees::tensor_out},
                           AxisWord{Axis::Depth, "tp_z", &PlanDegrees::tensor_depth},
                           AxisWord{Axis::Context, "cp", &PlanDegrees::context},
                           AxisWord{Axis::Data, "dp", &PlanDegrees::data},
                           AxisWord{Axis::Pipeline, "pp", &PlanDegrees::pipeline}};

std::string rank_order(const ExportRequest& h) {
  std::vector<std::string_view> words;
  for (const Axis axis : h.problem.framework->rank_order) {
    for (const AxisWord& known : kAxes) {
      if (known.axis == axis && h.degrees.*known.ranks > 1) words.push_back(known.word);
    }
  }
  return fmt::format("{}", fmt::join(words, "-"));
}

/// A value of the question beside degrees, in the order of `Setting`.
struct QuestionValue {
  std::string_view name;
  std::string (*value)(const ExportRequest&);
};

const QuestionValue& question_value(Setting setting) {
  using H = const ExportRequest&;
  static constexpr std::array<QuestionValue, 11> kValues{{
      {"micro_batches", [](H h) { return fmt::format("{}", h.degrees.micro_batches); }},
      {"batch", [](H h) { return fmt::format("{}", h.problem.global_batch); }},
      {"seq_len", [](H h) { return fmt::format("{}", h.problem.seq_len); }},
      {"precision", [](H h) { return std::string(to_text(h.problem.precision)); }},
      {"optimizer", [](H h) { return h.optimizer; }},
      {"attention", [](H h) { return h.attention; }},
      {"rank_order", rank_order},
      {"layers", [](H h) { return std::string(is_even(h.stages) ? kEven : kUneven); }},
      {"gpus", [](H h) { return fmt::format("{}", h.problem.gpus); }},
      {"model", [](H h) { return h.model().name; }},
      {"checkpoints", [](H h) { return h.job.checkpoints; }},
  }};
  return kValues.at(static_cast<std::size_t>(setting) - kDegreeCount);
}

/// Whether there is anything to hide on this axis.
bool has_traffic(Overlap overlap, const PlanDegrees& d) {
  switch (overlap) {
    case Overlap::GradientReduction:
      return d.data * d.context > 1;
    case Overlap::ParameterGather:
      return d.data * d.context > 1 && d.zero != ZeroStage::None;
    case Overlap::PipelineSend:
      return d.pipeline > 1;
    case Overlap::TensorParallel:
      return d.tensor() > 1;
    case Overlap::ContextRing:
      return d.context > 1;
    case Overlap::ExpertAllToAll:
      return d.expert > 1;
  }
  return true;
}

StageContent content_of(const OperatorGroup& group, const Network& network) {
  StageContent content;
  for (const BlockRun& run : group.blocks) {
    const BlockKind kind = network.blocks[run.block].kind;
    if (is_layer(kind)) content.layers += run.count;
    if (kind == BlockKind::Other) content.predictions += run.count;
    if (kind == BlockKind::Embedding) content.embedding = true;
    if (kind == BlockKind::Head) content.head = true;
  }
  return content;
}

/// The degrees that a stage decides by itself, whatever the pipeline as a whole decides taken out.
PlanDegrees own_degrees(PlanDegrees degrees) {
  for (const DegreeRow& row : degree_table()) {
    if (kPipelineDegrees.contains(row.degree)) row.set(degrees, row.get(PlanDegrees{}));
  }
  degrees.micro_batches = 1;
  return degrees;
}

/// The degrees of which the positions have several values, and the first of them in words.
void find_differences(PlanStages& found) {
  for (const DegreeRow& row : degree_table()) {
    std::set<std::string> values;
    for (const PlanDegrees& degrees : found.positions) {
      values.insert(value_text(row.degree, row.get(own_degrees(degrees))));
    }
    if (values.size() == 1) continue;
    found.differ.insert(row.degree);
    if (found.difference.empty()) {
      found.difference =
          fmt::format("the stages differ in {}: {}", row.key, fmt::join(values, ", "));
    }
  }
  // Ranks that differ share one micro-batch of the pipeline.
  const auto has_first = [&](const PlanDegrees& d) {
    return d.micro_batch == found.positions.front().micro_batch;
  };
  if (!std::ranges::all_of(found.positions, has_first)) found.differ.insert(Degree::MicroBatch);
}

}  // namespace

std::string name_of(Setting setting) {
  if (const auto degree = degree_of(setting)) {
    return std::string(*degree == kTensorAlias.degree ? kTensorAlias.key : row_of(*degree).key);
  }
  if (const auto overlap = overlap_of(setting))
    return std::string(kOverlapNames.at(static_cast<std::size_t>(*overlap)));
  if (const SettingRow* row = chosen_row(setting)) return std::string(row->key);
  return std::string(question_value(setting).name);
}

int ExportRequest::nodes() const {
  return (problem.gpus + gpus_per_node() - 1) / gpus_per_node();
}

int ExportRequest::gpus_per_node() const {
  return std::min(problem.gpus, problem.cluster->accelerators_per_node);
}

bool ExportRequest::overlaps(Overlap overlap) const {
  return problem.framework->overlap.at(static_cast<std::size_t>(overlap)).hides() &&
         has_traffic(overlap, degrees);
}

int ExportRequest::shard_ranks() const {
  return degrees.shard_group > 0 ? degrees.shard_group : degrees.data;
}

std::variant<PlanStages, std::string> plan_stages(const ParallelPlan& plan, const Network& network,
                                                  const Framework& framework) {
  PlanStages found;
  const Assignment& assignment = *plan.assignment;
  found.degrees = plan.transform_at(0).degrees;
  found.degrees.pipeline = assignment.stages();
  found.degrees.chunks = assignment.chunks;
  found.degrees.schedule = plan.order.schedule;
  found.degrees.micro_batches = plan.order.micro_batches;
  for (const OperatorGroup& group : assignment.groups) {
    found.stages.push_back(content_of(group, network));
  }
  for (int p = 0; p < assignment.stages(); ++p) {
    found.positions.push_back(plan.transform_at(p).degrees);
  }
  find_differences(found);
  if (!found.differ.empty()) return found;
  const DeviceMesh mesh = make_device_mesh(found.degrees, framework.rank_order);
  for (int p = 0; p < assignment.stages(); ++p) {
    const int natural = p * mesh.neighbour_distance(Axis::Pipeline);
    if (assignment.positions[static_cast<std::size_t>(p)].first != natural) {
      return fmt::format("stage {} starts at rank {}, the rank order puts it at {}", p,
                         assignment.positions[static_cast<std::size_t>(p)].first, natural);
    }
  }
  return found;
}

bool matters(Degree degree, const PlanDegrees& d, const ModelDescription& model) {
  switch (degree) {
    case Degree::ContextKind:
      return d.context > 1;
    case Degree::Schedule:
      return d.pipeline > 1 || schedule_row(d.schedule).joins;
    case Degree::Zero:
    case Degree::ShardGroup:
      return d.data * d.context > 1;
    case Degree::SequenceParallel:
      return d.tensor() > 1;
    case Degree::Expert:
    case Degree::ExpertTensor:
      return model.moe.has_value();
    default:
      return true;
  }
}

bool matters(Setting setting, const ExportRequest& request) {
  if (const auto degree = degree_of(setting))
    return matters(*degree, request.degrees, request.model());
  if (const auto overlap = overlap_of(setting))
    return is_chosen(*overlap, request) && has_traffic(*overlap, request.degrees);
  if (const SettingRow* row = chosen_row(setting)) return chosen_matters(*row, request);
  if (setting == Setting::Checkpoints) return !request.job.checkpoints.empty();
  return setting != Setting::Layers || request.virtual_stages() > 1;
}

std::string value_of(Setting setting, const ExportRequest& h) {
  if (setting == setting_of(Degree::ShardGroup))
    return h.shard_ranks() == h.degrees.data ? "0" : fmt::format("{}", h.shard_ranks());
  if (const auto degree = degree_of(setting))
    return value_text(*degree, degree_value(h.degrees, *degree));
  if (const auto overlap = overlap_of(setting))
    return std::string(h.overlaps(*overlap) ? kOn : kOff);
  if (const SettingRow* row = chosen_row(setting)) return row->get(h.chosen).value_or("");
  return question_value(setting).value(h);
}

std::string neutral_value(Setting setting) {
  if (const auto degree = degree_of(setting))
    return value_text(*degree, degree_value(PlanDegrees{}, *degree));
  if (overlap_of(setting)) return std::string(kOff);
  if (const SettingRow* row = chosen_row(setting))
    return std::string(kChosen[static_cast<std::size_t>(row->setting)].silent);
  return setting == Setting::Layers ? std::string(kEven) : std::string();
}

bool is_even(const std::vector<StageContent>& stages) {
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const bool last = s + 1 == stages.size();
    if (stages[s].layers != stages[0].layers || stages[s].head != last) return false;
    if (stages[s].embedding != (s == 0) || (stages[s].predictions > 0 && !last)) return false;
  }
  return true;
}

std::string stages_text(const std::vector<StageContent>& stages) {
  std::vector<std::string> words;
  for (const StageContent& stage : stages) {
    words.push_back(fmt::format("{}{}{}", stage.embedding ? "embedding+" : "", stage.layers,
                                stage.head ? "+head" : ""));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace plansearch::exporters
