// SPDX-License-Identifier: Apache-2.0
// Experts of a width that is not given are as wide as the MLP.
#include "evidence/validate/run_prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/checked.hpp"
#include "evidence/validate/lookup.hpp"
#include "plan/degrees/framework_defaults.hpp"
#include "plansearch/degree_table.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

int degree(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw refusal(fmt::format("degree {} is beyond any machine", value));
  }
  return static_cast<int>(value);
}

struct MlpWord {
  std::string_view word;
  Activation activation;
  bool gated;
};
constexpr std::array<MlpWord, 3> kMlps{{{"gelu", Activation::Gelu, false},
                                        {"gated", Activation::Silu, true},
                                        {"squared-relu", Activation::SquaredRelu, false}}};

/// The columns of sizes over a network, of which everything else stays.
void take_sizes(const RunRecord& run, const ArchitectureTable& table, ModelDescription& model) {
  model.layers = run.layers;
  model.hidden = run.hidden;
  model.attention.heads = run.heads;
  model.attention.kv_heads = run.kv_heads.value_or(run.heads);
  model.attention.head_size =
      run.head_size.value_or(std::max<std::int64_t>(1, run.hidden / run.heads));
  model.embedding.vocab = run.vocab.value_or(table.default_vocab);
  const auto* mlp = std::ranges::find(kMlps, run.mlp, &MlpWord::word);
  if (mlp == kMlps.end()) {
    throw refusal(fmt::format("mlp \"{}\" is none of gelu, gated, squared-relu", run.mlp));
  }
  model.mlp.width = run.ffn.value_or(4 * run.hidden);
  model.mlp.activation = mlp->activation;
  model.mlp.gated = mlp->gated;
  if (!run.experts) return;
  if (!run.top_k) throw refusal("experts per token (moe_topk) are unknown");
  if (!model.moe) model.moe.emplace();
  model.moe->experts = *run.experts;
  model.moe->top_k = *run.top_k;
  model.moe->expert_width = run.expert_width.value_or(model.mlp.width);
}

/// Everything but sizes and training from a published model of the same sizes.
ModelDescription switches_of(const ModelDescription& like, const ModelDescription& known) {
  ModelDescription model = known;
  model.attention = like.attention;
  model.stack = like.stack;
  model.norm = like.norm;
  model.mlp.bias = like.mlp.bias;
  model.embedding.tied = like.embedding.tied;
  model.embedding.position_rows = like.embedding.position_rows;
  model.dropout = like.dropout;
  model.attention_dropout = like.attention_dropout;
  model.mtp_layers = like.mtp_layers;
  if (model.moe && like.moe) {
    const auto capacity = model.moe->capacity_factor;
    model.moe = like.moe;
    model.moe->capacity_factor = capacity;
  }
  return model;
}

/// Takes an entry's settings of columns that the row leaves empty, or has otherwise than its
/// source.
void fill_settings(const RunRecord& run, const ArchitectureEntry& entry, RunCase& result) {
  for (const auto& [column, value] : entry.others) {
    if (run.cell(column).empty()) result.filled.push_back(fmt::format("{} {}", column, value));
  }
  for (const auto& [setting, value] : entry.settings) {
    const std::string said = run.cell(setting->column);
    if (!said.empty() && (!entry.replaces || said == value)) continue;
    setting->set(result.question, value);
    result.filled.push_back(said.empty()
                                ? fmt::format("{} {}", setting->column, value)
                                : fmt::format("{} {}, not {}", setting->column, value, said));
  }
}

/// The network of a row; one that names a shipped one and has no sizes of its own is that.
ModelDescription describe(const RunRecord& run, const ArchitectureTable& table, RunCase& result) {
  ModelDescription model = run.shipped ? *run.shipped : ModelDescription();
  model.training.seq_len = run.seq_len;
  model.training.global_batch = run.global_batch;
  if (run.shipped) {
    result.filled.push_back(fmt::format("sizes of {}", model.name));
    if (run.cell("seq_len").empty()) {
      result.filled.push_back(fmt::format("seq_len {}", run.seq_len));
    }
    return model;
  }
  const auto named = table.named_network(run);
  if (named) {
    const TrainingDefaults training = model.training;
    model = *named;
    model.training.seq_len = training.seq_len;
    model.training.global_batch = training.global_batch;
    // Its operators are those of the file; a fused kernel is among them.
    if (result.question.attention == "flash") result.question.attention.reset();
    result.filled.push_back(fmt::format("network of {}", model.name));
  } else {
    model.name = run.model.empty() ? run.id : run.model;
    model.source = run.cell("source");
    take_sizes(run, table, model);
    if (!run.vocab) result.filled.push_back(fmt::format("vocab {}", table.default_vocab));
  }
  for (const ArchitectureEntry* entry : table.matching(run)) {
    // Entries without a model are about networks that columns describe.
    if (named && !(entry->like && entry->like->name == named->name)) continue;
    fill_settings(run, *entry, result);
    if (!entry->inexpressible.empty()) throw refusal(entry->inexpressible);
    if (entry->like && !named) {
      model = switches_of(*entry->like, model);
      take_sizes(run, table, model);
    }
    for (const auto& change : entry->facts) change(model);
    if (entry->unfused_only) result.question.attention = "unfused";
    result.filled.push_back(entry->name);
  }
  if (model.attention.positions == PositionKind::Learned && model.embedding.position_rows == 0) {
    model.embedding.position_rows = model.training.seq_len;
  }
  const auto broken = contradictions(model);
  if (!broken.empty()) throw refusal(broken.front());
  return model;
}

/// A degree whose words the row may state in a column of its own.
void pin_word(Degree degree, const std::string& column, const std::string& word,
              PinnedDegrees& pinned) {
  if (word.empty()) return;
  const auto value = parse_value(degree, word);
  if (!value) throw refusal(fmt::format("{} \"{}\" is not {}", column, word, legal_text(degree)));
  pinned.pin(degree, *value);
}

/// On the same places, the order in which every forward runs beside a backward.
ScheduleId in_pairs(ScheduleId order, int stages) {
  for (const ScheduleId other : all_schedules()) {
    const Schedule& row = schedule_row(other);
    const bool several = row.chunks.contains(2);
    if (row.joins && row.placement == schedule_row(order).placement && several == (stages > 1)) {
      return other;
    }
  }
  throw refusal(fmt::format("expert_overlap: no order in pairs is like {}", to_text(order)));
}

/// Without stages there is nothing to interleave and no order: both columns repeat a default. An
/// order that does not take the row's chunks is the framework's own for so many.
void pin_order(const RunRecord& run, const ArchitectureTable& table, PinnedDegrees& pinned) {
  const bool pairs = table.cell(run, "expert_overlap") == "1";
  const int stages = pinned.get(Degree::Pipeline).value_or(1);
  if (stages == 1) {
    pinned.release(Degree::Chunks);
    if (pairs) pinned.pin(Degree::Schedule, static_cast<int>(in_pairs(kDefaultSchedule, 1)));
    return;
  }
  const std::string& word = run.cell("schedule");
  if (word.empty()) return;
  const auto named = table.schedules.find(word);
  if (!named) {
    throw refusal(
        fmt::format("schedule \"{}\" is not known (validation/architectures.yaml)", word));
  }
  const auto chunks = pinned.get(Degree::Chunks);
  if (chunks && !schedule_row(*named).chunks.contains(*chunks)) return;
  pinned.pin(Degree::Schedule, static_cast<int>(pairs ? in_pairs(*named, stages) : *named));
}

/// Ranks that the row's degrees, whose product is `known`, leave over go to degrees that its
/// columns leave empty.
void open_degrees(const RunRecord& run, std::int64_t known, RunCase& result) {
  if (known >= run.gpus || run.gpus % known != 0) return;
  for (const Degree degree : {Degree::TensorOut, Degree::Context, Degree::Pipeline}) {
    if (!run.degrees.has(degree)) result.open_degrees.push_back(degree);
  }
  if (result.open_degrees.empty()) return;
  result.open_ranks = degree(run.gpus / known);
  result.question.degrees.pin(result.open_degrees.front(), result.open_ranks);
}

/// A row that says nothing of its plan is data parallel; one that ran, only if that fits or shards
/// parameters, which makes room too.
void assume_degrees(const RunRecord& run, const PinnedDegrees& pinned, RunCase& result) {
  if (!run.step_time || result.plan.data == 1 || pinned.has(Degree::MicroBatch)) return;
  if (result.plan.zero == ZeroStage::Parameters) return;
  for (const Degree degree : {Degree::TensorOut, Degree::Pipeline}) {
    if (!pinned.has(degree)) result.assumed_degrees.push_back(degree);
  }
  if (!result.assumed_degrees.empty()) result.assumed_degrees.push_back(Degree::Data);
}

/// Takes the entries' degrees where the row leaves them empty.
void fill_degrees(const RunRecord& run, const ArchitectureTable& table, RunCase& result) {
  for (const ArchitectureEntry* entry : table.matching(run)) {
    for (const DegreeRow& row : degree_table()) {
      const auto value = entry->degrees.get(row.degree);
      if (!value || !run.cell(row.key).empty()) continue;
      result.question.degrees.pin(row.degree, *value);
      result.filled.push_back(fmt::format("{} {}", row.key, value_text(row.degree, *value)));
    }
  }
}

/// The degrees of the row as flags would give them, and a batch that they divide.
void pin_degrees(const RunRecord& run, const ArchitectureTable& table, const Framework& framework,
                 RunCase& result) {
  PinnedDegrees& pinned = result.question.degrees;
  pinned = run.degrees;
  fill_degrees(run, table, result);
  pin_word(Degree::Recompute, "recompute", run.recompute, pinned);
  pin_word(Degree::ContextKind, "cp_kind", run.cell("cp_kind"), pinned);
  pin_order(run, table, pinned);
  PlanDegrees& plan = result.plan;
  plan = with_defaults(with_pinned({}, pinned), pinned, framework);
  const std::array axes{plan.data,         plan.tensor_in, plan.tensor_out,
                        plan.tensor_depth, plan.pipeline,  plan.context};
  const auto ranks = product_within(std::numeric_limits<int>::max(), axes);
  if (!ranks) throw refusal("the product of the degrees is beyond any machine");
  if (!pinned.has(Degree::Data)) {
    plan.data = degree(std::max<std::int64_t>(1, run.gpus / *ranks));
    assume_degrees(run, pinned, result);
    pinned.pin(Degree::Data, plan.data);
  } else {
    open_degrees(run, *ranks, result);
  }
  if (!pinned.has(Degree::MicroBatch)) {
    result.open_micro_batch = framework.accumulates;
    plan.micro_batch = usual_micro_batch(plan, run.global_batch, framework);
    if (!framework.accumulates) {
      result.filled.push_back(
          fmt::format("micro_batch {} ({} does not accumulate)", plan.micro_batch, framework.name));
    }
  }
  pinned.pin(Degree::MicroBatch, plan.micro_batch);
  const std::int64_t per_round = std::int64_t{1} * plan.data * plan.tensor_depth * plan.micro_batch;
  plan.micro_batches = degree((run.global_batch + per_round - 1) / per_round);
  result.question.batch = plan.global_batch();
  result.batch_share =
      static_cast<double>(run.global_batch) / static_cast<double>(plan.global_batch());
}

bool is_eight_bit_or_less(const ProblemRequest& question) {
  const std::string format = question.precision.value_or("");
  return format == "fp8" || format == "mxfp8" || format == "nvfp4";
}

}  // namespace

std::string release_of(const RunRecord& run, const ArchitectureTable& table) {
  const std::string release = table.cell(run, "release");
  return release.empty() ? run.framework : release;
}

RunCase make_case(const RunRecord& run, const ArchitectureTable& table,
                  const Framework& framework) {
  if (!run.wrong.empty()) throw refusal(run.wrong);
  RunCase result;
  result.question = run.question;
  result.model = describe(run, table, result);
  if (run.framework_assumed) result.filled.push_back("framework " + run.framework);
  pin_degrees(run, table, framework, result);
  const bool exposed = table.cell(run, "expert_overlap") == "0";
  if (exposed && !result.question.overlap) result.question.overlap = "expert=0";
  result.question.seq_len = run.seq_len;
  result.memory_rank = run.memory_rank;
  if (!run.memory_rank) result.memory_rank = parse_memory_rank(table.cell(run, "mem_rank"));
  const std::string layers = table.cell(run, "stage_layers");
  if (!layers.empty()) result.stage_layers = read_stage_layers(layers);
  return result;
}

std::vector<std::string> regimes_of(const RunRecord& run, const RunCase& run_case,
                                    const Cluster& cluster) {
  constexpr std::int64_t kSmallMicroBatchTokens = 2048;
  constexpr int kDeepPipeline = 8;
  constexpr int kLargeData = 64;
  const PlanDegrees& plan = run_case.plan;
  std::vector<std::string> regimes;
  const auto add_if = [&](bool holds, const char* name) {
    if (holds) regimes.emplace_back(name);
  };
  const int fast_domain = cluster.tiers.empty() ? 1 : cluster.tiers.front().size;
  const auto tokens = std::int64_t{1} * plan.micro_batch * run.seq_len / std::max(1, plan.context);
  add_if(plan.tensor() > fast_domain, "tensor parallel across nodes");
  add_if(tokens <= kSmallMicroBatchTokens, "micro-batch of <= 2048 tokens");
  add_if(plan.pipeline >= kDeepPipeline, "pipeline of >= 8 stages");
  add_if(plan.data >= kLargeData, "data parallel over >= 64");
  add_if(run_case.model.moe.has_value(), "mixture of experts");
  add_if(is_eight_bit_or_less(run_case.question), "fp8 and fp4");
  add_if(plan.recompute == Recompute::Full, "full recomputation");
  return regimes;
}

}  // namespace plansearch
