// SPDX-License-Identifier: Apache-2.0
// Source: pytorch/torchtitan v0.2.2 torchtitan/config/job_config.py and @b5bcd76c
// torchtitan/config/configs.py (defaults); distributed/pipeline_parallel.py (stages).
#include "exporters/torchtitan_reading.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

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
void settle_data(Reading& r, const std::string& prefix) {
  PlanDegrees& d = r.degrees;
  const std::string replicate = prefix + "data_parallel_replicate_degree";
  const std::string shard = prefix + "data_parallel_shard_degree";
  const int replicas = r.says(replicate) ? count_in(r.value(replicate)) : 1;
  const std::int64_t shards = r.says(shard) ? whole_number(r.value(shard), -1, 1'000'000) : -1;
  d.data = shards > 0 ? static_cast<int>(replicas * shards) : 0;
  settle_ranks(r);
  if (replicas > 1) d.shard_group = d.data / replicas;
}

/// Stages of a rank: as many as layers per stage, else the schedule, make.
void settle_stages(Reading& r, const std::string& key) {
  PlanDegrees& d = r.degrees;
  if (d.pipeline == 1) {
    d.schedule = kDefaultSchedule;
    return;
  }
  const bool loops =
      schedule_row(d.schedule).name != "1f1b" && schedule_row(d.schedule).name != "gpipe";
  if (!r.stages.empty()) {
    d.chunks = static_cast<int>(r.stages.size()) / d.pipeline;
  } else if (r.says(key) && !r.value(key).is_null() && r.model.layers > 0) {
    const std::int64_t each = whole_number(r.value(key));
    // Embedding and output count as a layer each.
    d.chunks = static_cast<int>(
        std::max<std::int64_t>((r.model.layers + 2 + each - 1) / each / d.pipeline, 1));
  } else {
    d.chunks = loops ? 2 : 1;
  }
}

void settle_common(Reading& r, const std::string& prefix) {
  PlanDegrees& d = r.degrees;
  settle_stages(r, prefix + "pipeline_parallel_layers_per_stage");
  if (d.tensor_out == 1) d.sequence_parallel = SequenceParallel::Off;
  settle_data(r, prefix);
}

}  // namespace

void start_torchtitan(Reading& r) {
  r.asked.framework = "torchtitan";
  r.asked.precision = "bf16";
  r.asked.seq_len = 2048;
  r.asked.optimizer = "adam";
  r.degrees.zero = ZeroStage::Parameters;
  r.degrees.sequence_parallel = SequenceParallel::On;
  r.degrees.recompute = Recompute::Selective;
  r.degrees.micro_batches = 0;
}

void read_reshard(Reading& r, const Value& v) {
  r.degrees.zero = text_in(v) == "never" ? ZeroStage::Gradients : ZeroStage::Parameters;
}

void read_torch_schedule(Reading& r, const Value& v) {
  const std::string word = text_in(v);
  for (const auto& [own, name] : torch_schedules()) {
    if (name == word) r.degrees.schedule = find_schedule(own).value();
  }
  const auto known = std::any_of(torch_schedules().begin(), torch_schedules().end(),
                                 [&](const auto& row) { return row.second == word; });
  if (!known) throw WrongValue(fmt::format("'{}' is not a schedule that is known", word));
}

void read_torch_precision(Reading& r, const Value& v) {
  r.asked.precision = text_in(v) == "float32" ? "fp32" : "bf16";
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

/// Batches in tokens; with stages the micro-batches are counted by themselves.
void settle_torchtitan(Reading& r) {
  PlanDegrees& d = r.degrees;
  take_model(r, "--module", "--config", &RegisteredModel::config);
  if (is_on(r.value("--parallelism.no_enable_sequence_parallel")) ||
      (r.says("--parallelism.enable_sequence_parallel") &&
       !is_on(r.value("--parallelism.enable_sequence_parallel"))))
    d.sequence_parallel = SequenceParallel::Off;
  settle_common(r, "--parallelism.");
  const std::int64_t length = r.asked.seq_len.value_or(2048);
  const char* tokens = "--training.num_tokens_per_microbatch_per_dp_rank";
  d.micro_batch = static_cast<int>(
      std::max<std::int64_t>((r.says(tokens) ? whole_number(r.value(tokens)) : 16384) / length, 1));
  const char* step = "--training.num_tokens_per_train_step";
  if (r.says(step) && whole_number(r.value(step), -1) > 0) {
    r.asked.batch = whole_number(r.value(step)) / length;
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
  settle_common(r, "parallelism.");
  const char* local =
      r.says("training.local_batch_size") ? "training.local_batch_size" : "training.batch_size";
  const int samples = r.says(local) ? count_in(r.value(local)) : 8;
  d.micro_batch = samples;
  if (d.pipeline > 1) {
    const char* size = "parallelism.pipeline_parallel_microbatch_size";
    d.micro_batch = r.says(size) ? count_in(r.value(size)) : 1;
  }
  const char* global = "training.global_batch_size";
  const std::int64_t batch = r.says(global) ? whole_number(r.value(global), -1) : std::int64_t{-1};
  r.asked.batch = batch > 0 ? batch : std::int64_t{1} * samples * d.data;
  d.micro_batches = 0;
  settle_batch(r);
  const std::string mode = r.says("activation_checkpoint.mode")
                               ? text_in(r.value("activation_checkpoint.mode"))
                               : std::string("selective");
  if (mode == "none") d.recompute = Recompute::None;
  if (mode == "full") d.recompute = Recompute::Full;
  const char* option = "activation_checkpoint.selective_ac_option";
  if (mode == "selective" && (!r.says(option) || text_in(r.value(option)) != "op"))
    r.notes.emplace_back(
        "selective checkpoints of every n-th layer are priced as those of operators");
}

}  // namespace plansearch::exporters
