// SPDX-License-Identifier: Apache-2.0
// torchtitan: facts of its own, and what its keys say together: overrides of a registered
// configuration (main branch) and the TOML file of 0.2.
// Source: pytorch/torchtitan@b5bcd76c (2026-08-21) torchtitan/config/configs.py; distributed/
// pipeline_parallel.py: _get_pipeline_metadata (stages); v0.2.2 torchtitan/config/job_config.py
#include <fmt/format.h>

#include <algorithm>

#include "exporters/fact.hpp"
#include "exporters/readers.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

/// Sizes, and the parameters they and everything else of a network come to: another width, tied
/// embeddings, biases or norms give another number.
struct NetworkSizes {
  std::int64_t layers, hidden, heads, kv_heads, vocab, experts, parameters;
  bool operator==(const NetworkSizes&) const = default;
};

/// A network that torchtitan ships: its module, its configuration on the main branch (empty: none)
/// and its flavor in 0.2.
struct RegisteredModel {
  std::string_view module;
  std::string_view config;
  std::string_view flavor;
  NetworkSizes sizes;
};
using ModelName = std::string_view RegisteredModel::*;

/// By their network.
constexpr RegisteredModel kModels[] = {
    {"llama3", "llama3_8b", "8B", {32, 4096, 32, 8, 128256, 0, 8030261248}},
    {"llama3", "llama3_70b", "70B", {80, 8192, 64, 8, 128256, 0, 70553706496}},
    // llama3_405b of the main branch turns its linear layers into float8 ones.
    {"llama3", "", "405B", {126, 16384, 128, 8, 128256, 0, 405853388800}},
    {"qwen3", "qwen3_0_6b", "0.6B", {28, 1024, 16, 8, 151936, 0, 596049920}},
    {"qwen3", "qwen3_1_7b", "1.7B", {28, 2048, 16, 8, 151936, 0, 1720574976}},
    {"qwen3", "", "4B", {36, 2560, 32, 8, 151936, 0, 4022468096}},
    {"qwen3", "", "8B", {36, 4096, 32, 8, 151936, 0, 8190735360}},
    {"qwen3", "qwen3_14b", "14B", {40, 5120, 40, 8, 151936, 0, 14768307200}},
    {"qwen3", "qwen3_32b", "32B", {64, 5120, 64, 8, 151936, 0, 32762123264}},
    {"qwen3", "qwen3_30b_a3b", "30B-A3B", {48, 2048, 32, 4, 151936, 128, 30532122624}},
    {"qwen3", "", "235B-A22B", {94, 4096, 64, 4, 151936, 128, 235093634560}},
    {"deepseek_v3", "deepseek_v3_671b", "671B", {61, 7168, 128, 128, 129280, 256, 671026419200}},
    {"deepseek_v3", "deepseek_v3_16b", "16B", {27, 2048, 16, 16, 102400, 64, 15706484224}},
    {"gpt_oss", "gpt_oss_20b", "20b", {24, 2880, 64, 8, 201088, 32, 20914757184}},
    {"gpt_oss", "gpt_oss_120b", "120b", {36, 2880, 64, 8, 201088, 128, 116829156672}},
};

const RegisteredModel* find_model(const ExportRequest& h, ModelName name) {
  const ModelDescription& m = h.model();
  const NetworkSizes sizes{m.layers,
                           m.hidden,
                           m.attention.heads,
                           m.attention.kv_heads,
                           m.embedding.vocab,
                           m.moe ? m.moe->experts : 0,
                           parameter_count(*h.problem.network)};
  const auto* found = std::find_if(
      std::begin(kModels), std::end(kModels),
      [&](const RegisteredModel& model) { return model.sizes == sizes && !(model.*name).empty(); });
  return found == std::end(kModels) ? nullptr : found;
}

const RegisteredModel* find_registered(std::string_view module, ModelName name,
                                       std::string_view word) {
  const auto* found = std::find_if(
      std::begin(kModels), std::end(kModels),
      [&](const RegisteredModel& model) { return model.module == module && model.*name == word; });
  return found == std::end(kModels) ? nullptr : found;
}

Value registered(const ExportRequest& request, ModelName name, ModelName word) {
  const RegisteredModel* found = find_model(request, name);
  return found == nullptr ? Value() : Value(found->*word);
}

/// pipeline_parallel_layers_per_stage where it gives the stages of the plan.
Value layers_per_stage(H h) {
  if (h.degrees.pipeline == 1) return {};
  // Embedding and output count as a layer each.
  const std::int64_t weights = h.model().layers + 2;
  const std::int64_t stages = h.virtual_stages();
  const std::int64_t layers = (weights + stages - 1) / stages;
  const std::int64_t made = (weights + layers - 1) / layers;
  return made == stages && h.stages == h.own_stages ? Value(layers) : Value();
}

/// Names of the modules of every virtual stage.
Value module_names(const ExportRequest& h) {
  if (h.degrees.pipeline == 1) return {};
  Value stages = Value::array();
  std::int64_t layer = 0;
  for (const StageContent& content : h.stages) {
    Value names = Value::array();
    if (content.embedding) names.push_back("tok_embeddings");
    for (std::int64_t i = 0; i < content.layers; ++i) {
      names.push_back(fmt::format("layers.{}", layer++));
    }
    if (content.head) {
      names.push_back("norm");
      names.push_back("output");
    }
    stages.push_back(std::move(names));
  }
  return stages;
}

void read_rings(Reading& r, const Value& v) {
  if (!is_on(v)) return;
  r.degrees.temporal = Temporal::Ring;
  r.asked.framework = "torchtitan-async-tp";
}

void read_module_names(Reading& r, const Value& v) {
  if (v.is_null()) return;
  if (!v.is_array()) throw WrongValue("not a list of lists of names");
  for (const Value& names : v) {
    if (!names.is_array()) throw WrongValue("not a list of lists of names");
    StageContent stage;
    for (const Value& name : names) {
      const std::string word = text_in(name);
      stage.layers += word.starts_with("layers.") ? 1 : 0;
      stage.embedding = stage.embedding || word == "tok_embeddings";
      stage.head = stage.head || word == "output";
    }
    r.stages.push_back(stage);
  }
}

/// The registered network, named by its sizes.
void take_model(Reading& r, const char* module, const char* name_key, ModelName name) {
  if (!r.says(module) || !r.says(name_key)) return;
  const RegisteredModel* found =
      find_registered(text_in(r.value(module)), name, text_in(r.value(name_key)));
  if (found == nullptr) {
    r.notes.push_back(fmt::format("{} {} is not a network that is known: --model NAME",
                                  text_in(r.value(module)), text_in(r.value(name_key))));
    return;
  }
  r.has_model = true;
  r.model.layers = found->sizes.layers;
  r.model.hidden = found->sizes.hidden;
  r.model.attention.heads = found->sizes.heads;
  r.model.embedding.vocab = found->sizes.vocab;
  r.parameters = found->sizes.parameters;
}

/// Replicas times shards; a shard degree of -1 is what is left.
void settle_data(Reading& r) {
  PlanDegrees& d = r.degrees;
  const int replicas = r.count("shard_replicas", 1);
  const std::int64_t shards = r.number("shard_ranks", -1, -1, 1'000'000);
  d.data = shards > 0 ? static_cast<int>(replicas * shards) : 0;
  settle_ranks(r);
  if (replicas > 1) d.shard_group = d.data / replicas;
}

/// Stages of a rank: as many as layers per stage, else the schedule, make.
void settle_titan_stages(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (d.pipeline == 1) {
    d.schedule = kDefaultSchedule;
    return;
  }
  const bool loops =
      schedule_row(d.schedule).name != "1f1b" && schedule_row(d.schedule).name != "gpipe";
  if (!r.stages.empty()) {
    d.chunks = static_cast<int>(r.stages.size()) / d.pipeline;
  } else if (!r.fact("layers_per_stage").is_null() && r.model.layers > 0) {
    const std::int64_t each = whole_number(r.fact("layers_per_stage"));
    // Embedding and output count as a layer each.
    d.chunks = static_cast<int>(
        std::max<std::int64_t>((r.model.layers + 2 + each - 1) / each / d.pipeline, 1));
  } else {
    d.chunks = loops ? 2 : 1;
  }
}

void settle_common(Reading& r) {
  PlanDegrees& d = r.degrees;
  settle_titan_stages(r);
  if (d.tensor_out == 1) d.sequence_parallel = SequenceParallel::Off;
  settle_data(r);
}

// clang-format off
Facts titan_networks() {
  const std::vector<Setting> model{S::Model};
  using Row = RegisteredModel;
  return {
      {"module_of_config", model, [](H h) { return registered(h, &Row::config, &Row::module); }},
      {"config", model, [](H h) { return registered(h, &Row::config, &Row::config); }},
      {"module_of_flavor", model, [](H h) { return registered(h, &Row::flavor, &Row::module); }},
      {"flavor", model, [](H h) { return registered(h, &Row::flavor, &Row::flavor); }},
      {"no_config", {}, [](H h) { return Value(find_model(h, &Row::config) == nullptr); }},
      {"no_flavor", {}, [](H h) { return Value(find_model(h, &Row::flavor) == nullptr); }},
  };
}

Facts titan_batches() {
  return {
      // Batches are counted in tokens.
      {"micro_batch_tokens", {s(D::MicroBatch)}, [](H h) { return Value(h.degrees.micro_batch * h.problem.seq_len); }},
      {"step_tokens", {S::GlobalBatch, S::MicroBatches}, [](H h) { return Value(h.problem.global_batch * h.problem.seq_len); }},
      {"step_sequences", {S::GlobalBatch, S::MicroBatches}, [](H h) { return Value(h.problem.global_batch); }},
      // With a pipeline the batch of a rank is that of all its micro-batches.
      {"local_batch", {s(D::MicroBatch), S::MicroBatches},
       [](H h) {
         const bool pipeline = h.degrees.pipeline > 1;
         return Value(std::int64_t{1} * h.degrees.micro_batch * (pipeline ? h.degrees.micro_batches : 1));
       }},
      {"pipeline_micro_batch", {s(D::MicroBatch), S::MicroBatches},
       [](H h) { return where(h.degrees.pipeline > 1, h.degrees.micro_batch); }},
      {"pipeline_micro_batches", {S::MicroBatches}, [](H h) { return where(h.degrees.pipeline > 1, h.degrees.micro_batches); },
       [](R r, V v) { r.degrees.micro_batches = count_in(v); }},
  };
}

Facts titan_plans() {
  return {
      // FSDP2 frees parameters after forward (ZeRO-3), but by default keeps them where a pipeline has
      // micro-batches in flight, as plans are priced; ZeRO-2 keeps them always.
      {"keeps_gathered", {s(D::Zero)}, [](H h) { return Value(h.degrees.zero == ZeroStage::Gradients); },
       [](R r, V v) { r.degrees.zero = is_on(v) ? ZeroStage::Gradients : ZeroStage::Parameters; }},
      {"no_sp", {s(D::SequenceParallel)},
       [](H h) { return Value(h.degrees.sequence_parallel == SequenceParallel::Off && h.degrees.tensor_out > 1); }},
      {"layers_per_stage", {s(D::Chunks), S::Layers}, layers_per_stage},
      {"stage_modules", {S::Layers, s(D::Chunks)}, module_names, read_module_names},
      // CompileConfig.__post_init__, maybe_enable_async_tp: rings are made by the compiler.
      {"rings", {s(D::Temporal)}, [](H h) { return Value(h.degrees.temporal == Temporal::Ring); }, read_rings},
      {"recompute_mode", {s(D::Recompute)}, [](H h) { return Value(value_of(s(D::Recompute), h)); }},
      {"selective_recompute", {s(D::Recompute)}, [](H h) { return Value(h.degrees.recompute == Recompute::Selective); }},
  };
}
// clang-format on

}  // namespace

Facts torchtitan_facts() {
  return joined<Fact>({titan_networks(), titan_batches(), titan_plans()});
}

void start_torchtitan(Reading& r) {
  r.degrees.zero = ZeroStage::Parameters;
  r.degrees.sequence_parallel = SequenceParallel::On;
  r.degrees.recompute = Recompute::Selective;
  r.degrees.micro_batches = 0;
}

/// Batches in tokens; with stages the micro-batches are counted by themselves.
void settle_torchtitan(Reading& r) {
  PlanDegrees& d = r.degrees;
  take_model(r, "--module", "--config", &RegisteredModel::config);
  if (is_on(r.value("--parallelism.no_enable_sequence_parallel")) ||
      (r.says("--parallelism.enable_sequence_parallel") &&
       !is_on(r.value("--parallelism.enable_sequence_parallel"))))
    d.sequence_parallel = SequenceParallel::Off;
  settle_common(r);
  const std::int64_t length = r.asked.seq_len.value_or(2048);
  const char* tokens = "--training.num_tokens_per_microbatch_per_dp_rank";
  d.micro_batch = static_cast<int>(std::max<std::int64_t>(r.key_number(tokens, 16384) / length, 1));
  const std::int64_t step = r.key_number("--training.num_tokens_per_train_step", -1, -1);
  if (step > 0) {
    r.asked.batch = step / length;
    d.micro_batches = 0;
  } else if (d.micro_batches == 0) {
    d.micro_batches = 1;
  }
  settle_batch(r);
}

/// Batches in sequences; with stages local_batch_size is that of all micro-batches.
void settle_torchtitan_toml(Reading& r) {
  PlanDegrees& d = r.degrees;
  take_model(r, "model.name", "model.flavor", &RegisteredModel::flavor);
  // job_config.py: context_parallel_rotate_method is "allgather" where nothing says it.
  if (d.context > 1 && !r.says("parallelism.context_parallel_rotate_method"))
    d.context_kind = ContextKind::AllGather;
  settle_common(r);
  const int samples = r.count("local_batch", 8);
  d.micro_batch = samples;
  if (d.pipeline > 1) {
    const int counted = r.knows("pipeline_micro_batches") ? d.micro_batches : samples;
    d.micro_batch = r.count("pipeline_micro_batch", std::max(samples / counted, 1));
  }
  const std::int64_t batch = r.key_number("training.global_batch_size", -1, -1);
  r.asked.batch = batch > 0 ? batch : std::int64_t{1} * samples * d.data;
  d.micro_batches = 0;
  settle_batch(r);
  const std::string mode = r.key_word("activation_checkpoint.mode", "selective");
  if (mode == "none") d.recompute = Recompute::None;
  if (mode == "full") d.recompute = Recompute::Full;
  if (mode == "selective" && r.key_word("activation_checkpoint.selective_ac_option") != "op")
    r.notes.emplace_back(
        "selective checkpoints of every n-th layer are priced as those of operators");
}

}  // namespace plansearch::exporters
