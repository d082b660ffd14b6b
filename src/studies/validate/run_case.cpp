// SPDX-License-Identifier: Apache-2.0
// Computes: network description, options and parallel plan of a measured run.
// Source: the columns of the row; validation/architectures.yaml for what they do not say.
// Assumes: expert tensor parallelism 1; experts of a width not given are as wide as the MLP.
// Units: counts.
// Checked by: tests/unit/studies/run_case_test.cpp
#include "studies/validate/run_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/checked.hpp"
#include "plan/degrees/framework_defaults.hpp"
#include "plansearch/degree_table.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// Raised inside this file only: turned into a value at its border.
struct Refusal {
  std::string reason;
};

int degree(std::int64_t value) {
  if (value > std::numeric_limits<int>::max()) {
    throw Refusal{fmt::format("degree {} is beyond any machine", value)};
  }
  return static_cast<int>(value);
}

void set_biases(ModelDescription& model, bool biases) {
  model.attention.query_key_value_bias = biases;
  model.attention.output_bias = biases;
  model.mlp.bias = biases;
}

/// Everything the row's columns do not state, from a published model of the same sizes.
void take_switches(ModelDescription& model, const ModelDescription& like) {
  AttentionDescription attention = like.attention;
  attention.heads = model.attention.heads;
  attention.kv_heads = model.attention.kv_heads;
  attention.head_size = model.attention.head_size;
  model.attention = attention;
  model.stack = like.stack;
  model.norm = like.norm;
  model.mlp.bias = like.mlp.bias;
  model.embedding.tied = like.embedding.tied;
  model.embedding.position_rows = like.embedding.position_rows;
  model.dropout = like.dropout;
  model.attention_dropout = like.attention_dropout;
  model.mtp_layers = like.mtp_layers;
  if (!model.moe || !like.moe) return;
  MoeDescription moe = *like.moe;
  moe.experts = model.moe->experts;
  moe.top_k = model.moe->top_k;
  moe.expert_width = model.moe->expert_width;
  moe.capacity_factor = model.moe->capacity_factor;
  model.moe = moe;
}

template <typename T, typename U>
void apply(const std::optional<T>& fact, U& target) {
  if (fact) target = *fact;
}

void take_facts(ModelDescription& model, const ArchitectureFacts& facts) {
  if (!facts.inexpressible.empty()) throw Refusal{facts.inexpressible};
  apply(facts.stack, model.stack);
  apply(facts.norm, model.norm.kind);
  apply(facts.positions, model.attention.positions);
  if (facts.biases) set_biases(model, *facts.biases);
  apply(facts.tied, model.embedding.tied);
  apply(facts.dropout, model.dropout);
  apply(facts.dropout, model.attention_dropout);
  apply(facts.qk_norm, model.attention.qk_norm);
  apply(facts.sinks, model.attention.sinks);
  apply(facts.window, model.attention.window);
  apply(facts.full_attention_every, model.attention.full_attention_every);
  apply(facts.latent, model.attention.latent);
  apply(facts.mtp_layers, model.mtp_layers);
  apply(facts.token_types, model.embedding.token_types);
  if (!model.moe) return;
  apply(facts.shared_width, model.moe->shared_width);
  apply(facts.leading_dense, model.moe->leading_dense);
}

MlpDescription read_mlp(const RunRecord& run) {
  MlpDescription mlp;
  mlp.width = run.ffn.value_or(4 * run.hidden);
  if (run.mlp == "gelu") {
    mlp.activation = Activation::Gelu;
  } else if (run.mlp == "gated") {
    mlp.activation = Activation::Silu;
    mlp.gated = true;
  } else if (run.mlp == "squared-relu") {
    mlp.activation = Activation::SquaredRelu;
  } else {
    throw Refusal{fmt::format("mlp \"{}\" is none of gelu, gated, squared-relu", run.mlp)};
  }
  return mlp;
}

std::optional<MoeDescription> read_experts(const RunRecord& run, const MlpDescription& mlp) {
  if (!run.experts) return std::nullopt;
  if (!run.top_k) throw Refusal{"experts per token (moe_topk) are unknown"};
  MoeDescription moe;
  moe.experts = *run.experts;
  moe.top_k = *run.top_k;
  moe.expert_width = run.expert_width.value_or(mlp.width);
  return moe;
}

ModelDescription sizes_of(const RunRecord& run, const ArchitectureTable& table) {
  ModelDescription model;
  model.name = run.model.empty() ? run.id : run.model;
  model.source = run.cell("source");
  model.layers = run.layers;
  model.hidden = run.hidden;
  model.attention.heads = run.heads;
  model.attention.kv_heads = run.kv_heads.value_or(run.heads);
  model.attention.head_size =
      run.head_size.value_or(std::max<std::int64_t>(1, run.hidden / run.heads));
  model.mlp = read_mlp(run);
  model.moe = read_experts(run, model.mlp);
  model.embedding.vocab = run.vocab.value_or(table.default_vocab);
  model.training.seq_len = run.seq_len;
  model.training.global_batch = run.global_batch;
  return model;
}

void require_consistent(ModelDescription& model) {
  if (model.attention.positions == PositionKind::Learned && model.embedding.position_rows == 0) {
    model.embedding.position_rows = model.training.seq_len;
  }
  const auto broken = contradictions(model);
  if (!broken.empty()) throw Refusal{broken.front()};
}

/// The network of a row that names a shipped one and has no sizes of its own.
ModelDescription shipped_model(const RunRecord& run, RunCase& result) {
  ModelDescription model = *run.shipped;
  model.training.seq_len = run.seq_len;
  model.training.global_batch = run.global_batch;
  result.filled.push_back(fmt::format("sizes of {}", model.name));
  if (run.cell("seq_len").empty()) result.filled.push_back(fmt::format("seq_len {}", run.seq_len));
  return model;
}

ModelDescription describe(const RunRecord& run, const ArchitectureTable& table, RunCase& result) {
  if (run.shipped) return shipped_model(run, result);
  ModelDescription model = sizes_of(run, table);
  if (!run.vocab) result.filled.push_back(fmt::format("vocab {}", table.default_vocab));
  for (const ArchitectureEntry* entry : table.matching(run)) {
    if (entry->like) take_switches(model, *entry->like);
    take_facts(model, entry->facts);
    if (entry->facts.attention == AttentionSupport::UnfusedOnly) {
      result.question.attention = "unfused";
    }
    result.filled.push_back(entry->name);
  }
  require_consistent(model);
  return model;
}

/// A degree whose words the row may state in a column of its own.
void pin_word(Degree degree, const std::string& column, const std::string& word,
              PinnedDegrees& pinned) {
  if (word.empty()) return;
  const auto value = parse_value(degree, word);
  if (!value) {
    throw Refusal{fmt::format("{} \"{}\" is not {}", column, word, legal_text(degree))};
  }
  pinned.pin(degree, *value);
}

/// Without stages there is nothing to interleave and no order: both columns repeat a default. An
/// order that does not take the row's chunks is the framework's own for so many.
void pin_order(const RunRecord& run, const ArchitectureTable& table, PinnedDegrees& pinned) {
  if (pinned.get(Degree::Pipeline).value_or(1) == 1) return pinned.release(Degree::Chunks);
  const std::string& word = run.cell("schedule");
  if (word.empty()) return;
  const auto named = table.schedules.find(word);
  if (!named) {
    throw Refusal{
        fmt::format("schedule \"{}\" is not known (validation/architectures.yaml)", word)};
  }
  const auto chunks = pinned.get(Degree::Chunks);
  if (chunks && !schedule_row(*named).chunks.contains(*chunks)) return;
  pinned.pin(Degree::Schedule, static_cast<int>(*named));
}

/// The degrees of the row as flags would give them, and a batch that they divide.
void pin_degrees(const RunRecord& run, const ArchitectureTable& table, const Framework& framework,
                 RunCase& result) {
  PinnedDegrees& pinned = result.question.degrees;
  pinned = run.degrees;
  pin_word(Degree::Recompute, "recompute", run.recompute, pinned);
  pin_word(Degree::ContextKind, "cp_kind", run.cell("cp_kind"), pinned);
  pin_order(run, table, pinned);
  PlanDegrees& plan = result.plan;
  plan = with_defaults(with_pinned({}, pinned), pinned, framework);
  const std::array axes{plan.data,         plan.tensor_in, plan.tensor_out,
                        plan.tensor_depth, plan.pipeline,  plan.context};
  const auto ranks = product_within(std::numeric_limits<int>::max(), axes);
  if (!ranks) throw Refusal{"the product of the degrees is beyond any machine"};
  if (!pinned.has(Degree::Data)) {
    plan.data = degree(std::max<std::int64_t>(1, run.gpus / *ranks));
    pinned.pin(Degree::Data, plan.data);
  }
  const std::string micro_batch(row_of(Degree::MicroBatch).key);
  result.open_micro_batch = !pinned.has(Degree::MicroBatch) &&
                            !framework.natural_degrees.contains(micro_batch) &&
                            !framework.fixed_degrees.contains(micro_batch);
  pinned.pin(Degree::MicroBatch, plan.micro_batch);
  const std::int64_t per_round = std::int64_t{1} * plan.data * plan.tensor_depth * plan.micro_batch;
  plan.micro_batches = degree((run.global_batch + per_round - 1) / per_round);
  result.question.batch = plan.global_batch();
  result.batch_share =
      static_cast<double>(run.global_batch) / static_cast<double>(plan.global_batch());
}

}  // namespace

std::variant<RunCase, Inexpressible> make_case(const RunRecord& run, const ArchitectureTable& table,
                                               const Framework& framework) {
  try {
    RunCase result;
    if (!run.wrong.empty()) throw Refusal{run.wrong};
    result.question = run.question;
    result.model = describe(run, table, result);
    if (run.framework_assumed) result.filled.push_back("framework " + run.framework);
    pin_degrees(run, table, framework, result);
    result.question.seq_len = run.seq_len;
    return result;
  } catch (const Refusal& refusal) {
    return Inexpressible{refusal.reason};
  }
}

}  // namespace plansearch
