// SPDX-License-Identifier: Apache-2.0
// axolotl: the YAML file of `axolotl train`.
//
// Keys and rules: axolotl-ai-cloud/axolotl@067b021c (2026-07-24)
//   src/axolotl/utils/schemas/config.py: AxolotlInputConfig; fsdp.py: FSDPConfig; peft.py,
//   training.py, validation.py
//   src/axolotl/utils/distributed.py: _get_parallel_config_kwargs (what is left is sharded)
//   src/axolotl/utils/config/__init__.py: normalize_config (batches)
#include <fmt/format.h>

#include <algorithm>

#include "base/names.hpp"
#include "exporters/hugging_face.hpp"
#include "exporters/offload_words.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

bool is_precision(const ExportRequest& h, DataType type) {
  return h.problem.precision == type;
}

Value adapter(const ExportRequest& h) {
  if (adapters_of(h) == nullptr) return {};
  return Value(h.chosen.base_precision == "nf4" ? "qlora" : "lora");
}

/// Replicas of sharded groups.
int replicas(const ExportRequest& h) {
  return h.degrees.data / h.shard_ranks();
}

Value in_fsdp(const ExportRequest& h, Value value) {
  return fully_shards(h) ? value : Value();
}

void read_ring(Reading& r, const Value& v) {
  if (is_left_open(v)) return;
  const std::string word = text_in(v);
  if (!word.starts_with("batch_") && word != "varlen_llama3")
    throw WrongValue(fmt::format("'{}' is not varlen_llama3 or batch_ring", word));
  r.degrees.context_kind = word == "varlen_llama3" ? ContextKind::AllGather : ContextKind::Ring;
}

void read_bf16(Reading& r, const Value& v) {
  if (is_on(v))
    r.asked.precision = "bf16";
  else if (r.asked.precision == "bf16")
    r.asked.precision = "fp32";
}

template <auto Field>
void read_unless_null(Reading& r, const Value& v) {
  if (!is_left_open(v)) r.degrees.*Field = count_in(v);
}

constexpr Setting kOffloads = setting_of(Degree::Offload);

constexpr int kEightBits = 8;
template <int Bits>
void read_bits(Reading& r, const Value& v) {
  if (is_on(v)) r.asked.base_precision = Bits == kEightBits ? "int8" : "nf4";
}

// clang-format off
std::vector<Key> plan_keys() {
  return {
      {"base_model", {}, [](const ExportRequest& h) { return Value(h.model().name); },
       [](Reading& r, const Value& v) { r.named = text_in(v); }, true},
      {"sequence_len", {S::SequenceLength}, kSequence},
      {"micro_batch_size", {s(D::MicroBatch)}, degree<&PlanDegrees::micro_batch>},
      // The number of processes and these two make the batch.
      {"gradient_accumulation_steps", {S::MicroBatches, S::GlobalBatch, s(D::Data), S::Gpus}, degree<&PlanDegrees::micro_batches>,
       read_unless_null<&PlanDegrees::micro_batches>},
      {"dp_shard_size", {s(D::ShardGroup), s(D::Zero)},
       [](const ExportRequest& h) { return in_fsdp(h, Value(h.shard_ranks())); }, together},
      {"dp_replicate_size", {s(D::ShardGroup)},
       [](const ExportRequest& h) { return replicas(h) > 1 ? in_fsdp(h, Value(replicas(h))) : Value(); }, together},
      {"tensor_parallel_size", {s(D::TensorOut)}, degree<&PlanDegrees::tensor_out>, read_unless_null<&PlanDegrees::tensor_out>},
      {"context_parallel_size", {s(D::Context)}, degree<&PlanDegrees::context>, read_unless_null<&PlanDegrees::context>},
      {"ring_attn_func", {s(D::ContextKind)},
       [](const ExportRequest& h) {
         if (h.degrees.context == 1) return Value();
         return Value(h.degrees.context_kind == ContextKind::AllGather ? "varlen_llama3" : "batch_ring");
       },
       read_ring},
      // varlen_llama3 runs on packed sequences, batch_ring on whole ones.
      {"sample_packing", {s(D::ContextKind), kPacking},
       [](const ExportRequest& h) {
         if (h.degrees.context == 1) return packs(h);
         return Value(h.degrees.context_kind == ContextKind::AllGather);
       },
       read_packing},
      {"fsdp_version", {s(D::Zero)}, [](const ExportRequest& h) { return in_fsdp(h, Value(2)); }, together},
      {"fsdp_config.reshard_after_forward", {s(D::Zero)},
       [](const ExportRequest& h) { return in_fsdp(h, Value(h.degrees.zero == ZeroStage::Parameters)); }, together},
      {"fsdp_config.auto_wrap_policy", {s(D::Zero)},
       [](const ExportRequest& h) { return in_fsdp(h, Value("TRANSFORMER_BASED_WRAP")); }, together},
      {"fsdp_config.state_dict_type", {},
       [](const ExportRequest& h) { return in_fsdp(h, Value("SHARDED_STATE_DICT")); }},
      {"fsdp_config.offload_params", {kOffloads},
       if_on_host<&HostTensors::parameters>, read_shard_offload},
      {"activation_offloading", {kOffloads},
       if_on_host<&HostTensors::activations>,
       [](Reading& r, const Value& v) { if (is_on(v)) r.offload("activations"); }},
      {"gradient_checkpointing", {s(D::Recompute)},
       [](const ExportRequest& h) { return Value(h.degrees.recompute == Recompute::Full); }, read_flag_of_recompute},
      {"gradient_checkpointing_kwargs.use_reentrant", {s(D::Recompute)},
       [](const ExportRequest& h) { return h.degrees.recompute == Recompute::Full ? Value(false) : Value(); }, together},
      {"bf16", {S::Precision}, [](const ExportRequest& h) { return Value(is_precision(h, DataType::Bf16)); }, read_bf16},
      {"fp16", {S::Precision}, [](const ExportRequest& h) { return Value(is_precision(h, DataType::Fp16)); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "fp16"; }},
      {"tf32", {S::Precision},
       [](const ExportRequest& h) {
         const bool single = is_precision(h, DataType::Tf32) || is_precision(h, DataType::Fp32);
         return single ? Value(is_precision(h, DataType::Tf32)) : Value();
       },
       together},
      {"attn_implementation", {S::Attention},
       [](const ExportRequest& h) { return Value(h.attention == "unfused" ? "eager" : "flash_attention_2"); },
       [](Reading& r, const Value& v) { if (text_in(v) == "eager") r.asked.attention = "unfused"; }},
      {"optimizer", {S::Optimizer, kStates}, value_from<optimizer_name>, read_optimizer_name},
  };
}

std::vector<Key> adapter_keys() {
  return {
      {"adapter", {kLoraRank}, adapter, together},
      {"lora_r", {kLoraRank},
       [](const ExportRequest& h) { return adapters_of(h) != nullptr ? Value(adapters_of(h)->rank) : Value(); }, together},
      {"lora_alpha", {},
       [](const ExportRequest& h) { return adapters_of(h) != nullptr ? Value(2 * adapters_of(h)->rank) : Value(); }},
      {"lora_target_linear", {kLoraTargets, kLoraRank},
       [](const ExportRequest& h) { return flag(adapts_all(h)); }, together},
      {"lora_target_modules", {kLoraTargets, kLoraRank}, adapter_modules, together},
      {"lora_modules_to_save", {kLoraTargets}, trained_tables, together},
      {"load_in_4bit", {kBasePrecision},
       [](const ExportRequest& h) { return flag(h.chosen.base_precision == "nf4"); }, read_bits<4>},
      {"load_in_8bit", {kBasePrecision},
       [](const ExportRequest& h) { return flag(h.chosen.base_precision == "int8"); }, read_bits<kEightBits>},
  };
}

std::vector<Key> other_keys() {
  return {
      {"learning_rate", {}, [](const ExportRequest&) { return Value(1e-4); }},
      {"max_steps", {}, constant<20>},
      {"datasets", {}, [](const ExportRequest&) { return Value::parse(R"([{"path": "tatsu-lab/alpaca", "type": "alpaca"}])"); }},
      {"output_dir", {S::Checkpoints},
       [](const ExportRequest& h) {
         return h.job.checkpoints.empty() ? Value(fmt::format("./plan-{}", h.identity)) : Value(h.job.checkpoints);
       },
       together},
      {"save_steps", {S::Checkpoints}, checkpoint_steps, together},
      {"auto_resume_from_checkpoints", {S::Checkpoints}, with_checkpoints<true>, together},
      only_read("batch_size", together),
      only_read("sequence_parallel_degree", read_unless_null<&PlanDegrees::context>),
      only_read("bfloat16", read_bf16),
      only_read("fp8", [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "fp8"; }),
      only_read("flash_attention", together), only_read("sdp_attention", together),
      only_read("eager_attention", [](Reading& r, const Value& v) { if (is_on(v)) r.asked.attention = "unfused"; }),
      only_read("deepspeed", together),
      only_read("fsdp", together),
      only_read("fsdp_config.fsdp_version", together),
      only_read("fsdp_config.activation_checkpointing", read_flag_of_recompute),
      only_read("fsdp_config.transformer_layer_cls_to_wrap", together),
      only_read("fsdp_config.fsdp_activation_checkpointing", read_flag_of_recompute),
      only_read("fsdp_config.fsdp_reshard_after_forward", together),
      only_read("fsdp_config.fsdp_sharding_strategy", together),
      only_read("fsdp_config.fsdp_offload_params", read_shard_offload),
      only_read("fsdp_config.fsdp_auto_wrap_policy", together),
      only_read("fsdp_config.fsdp_transformer_layer_cls_to_wrap", together),
  };
}
// clang-format on

/// config.py, training.py: AxolotlInputConfig.
void start(Reading& r) {
  r.asked.framework = "hf-trainer";
  r.asked.precision = "bf16";
  r.asked.seq_len = 512;
  r.asked.optimizer = "adam";
  r.degrees.data = 0;
  r.degrees.micro_batches = 1;
  r.degrees.recompute = Recompute::None;
}

/// FSDP 1 has words of its own; 2 reshards unless it is told not to.
void settle_sharding(Reading& r) {
  PlanDegrees& d = r.degrees;
  const auto begins = [](const auto& pair) { return pair.first.starts_with("fsdp_config."); };
  const bool sharded = std::any_of(r.said.begin(), r.said.end(), begins) ||
                       (r.says("fsdp") && !is_left_open(r.value("fsdp")));
  if (!sharded) return;
  d.zero = ZeroStage::Parameters;
  const auto kept = [&](const char* key) { return r.says(key) && !is_on(r.value(key)); };
  if (kept("fsdp_config.reshard_after_forward") || kept("fsdp_config.fsdp_reshard_after_forward"))
    d.zero = ZeroStage::Gradients;
  const std::string list =
      r.value("fsdp").dump() + r.value("fsdp_config.fsdp_sharding_strategy").dump();
  const std::string words = canonical_name(list);
  if (words.find("shard-grad-op") != std::string::npos) d.zero = ZeroStage::Gradients;
}

void settle_groups(Reading& r) {
  PlanDegrees& d = r.degrees;
  const auto size = [&](const char* key) {
    return r.says(key) && !is_left_open(r.value(key)) ? count_in(r.value(key)) : 0;
  };
  const int sharded = size("dp_shard_size"), copies = size("dp_replicate_size");
  if (r.gpus() == 0 && sharded > 0) d.data = sharded * std::max(copies, 1);
  settle_ranks(r);
  if (d.zero == ZeroStage::None) return;
  const int group = sharded > 0 ? sharded : d.data / std::max(copies, 1);
  if (group > 0 && group < d.data) d.shard_group = group;
}

void settle_adapters(Reading& r) {
  if (!r.says("adapter") || is_left_open(r.value("adapter"))) return;
  if (!r.says("lora_r")) throw Unsettled("an adapter without lora_r, its rank", "--lora-rank N");
  r.asked.lora_rank = whole_number(r.value("lora_r"), 1, 1 << 16);
  if (text_in(r.value("adapter")) == "qlora" && !r.asked.base_precision)
    r.asked.base_precision = "nf4";
  if (is_on(r.value("lora_target_linear")))
    r.asked.lora_targets = "all-linear";
  else if (r.says("lora_target_modules") && !is_left_open(r.value("lora_target_modules")))
    read_adapter_modules(r, r.value("lora_target_modules"), "all-linear");
  if (r.says("lora_modules_to_save") && !is_left_open(r.value("lora_modules_to_save")))
    read_trained_tables(r, r.value("lora_modules_to_save"));
}

void settle(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (r.says("deepspeed") && !is_left_open(r.value("deepspeed")))
    throw Unsettled("deepspeed: the file that it names says how states are sharded",
                    "leave the key out and type --zero N, or import the file itself");
  settle_sharding(r);
  settle_adapters(r);
  if (d.tensor_out > 1 || d.context > 1) {
    r.asked.framework = "any";
    r.notes.emplace_back("the Trainer alone has no tensor or context parallelism: priced as any");
  }
  if (r.says("batch_size") && !is_left_open(r.value("batch_size")))
    d.micro_batches = std::max(count_in(r.value("batch_size")) / d.micro_batch, 1);
  // TF32 is how fp32 runs where it is on.
  if (r.asked.precision == "fp32" && is_on(r.value("tf32"))) r.asked.precision = "tf32";
  settle_groups(r);
  settle_batch(r);
}

std::vector<Accepts> accepts() {
  const std::vector<Accepts> own{{S::Precision, {"bf16", "fp16", "fp32", "tf32"}},
                                 {S::Optimizer, {"adam", "sgd", "adafactor", "muon"}},
                                 {s(D::ContextKind), {"ring", "all-gather"}},
                                 {S::RankOrder, {"tp-cp-dp"}, By::Target},
                                 {S::Model, {}, By::Script},
                                 {kOffloads, trainer_offloads()},
                                 {kPacking},
                                 {setting_of(Overlap::TensorParallel), {kOff}, By::Target},
                                 {setting_of(Overlap::ContextRing), {}, By::Target}};
  return joined<Accepts>({own, accepts_of_trainer()});
}

Launch launch() {
  return {.script = "-m axolotl.cli.train", .arguments = "\"$PLAN_CONFIG\" \"${TRAIN_ARGS[@]}\""};
}

std::vector<Conflict> conflicts() {
  return {fused_adapters(),
          {"tensor or context parallelism without fsdp_config (zero 0)",
           [](const ExportRequest& h) {
             return h.degrees.zero == ZeroStage::None && h.degrees.data > 1 &&
                    (h.degrees.tensor_out > 1 || h.degrees.context > 1);
           }},
          {"replicas that share nothing under FSDP (shard_group 1)",
           [](const ExportRequest& h) { return h.shard_ranks() == 1 && h.degrees.data > 1; }},
          {"packed sequences in several to a micro-batch (cp_kind all-gather)",
           [](const ExportRequest& h) {
             return h.degrees.context > 1 && h.degrees.micro_batch > 1 &&
                    h.degrees.context_kind == ContextKind::AllGather;
           }},
          {"packed documents under ring attention (cp_kind ring)",
           [](const ExportRequest& h) {
             return h.chosen.packing && h.degrees.context > 1 &&
                    h.degrees.context_kind == ContextKind::Ring;
           }},
          // validation.py: check_context_parallel_size
          {"context parallelism without fused attention", [](const ExportRequest& h) {
             return h.degrees.context > 1 && h.attention == "unfused";
           }}};
}

}  // namespace

Exporter axolotl_exporter() {
  return {.title = "configuration of axolotl train",
          .checked = "axolotl-ai-cloud/axolotl@067b021c (2026-07-24)",
          .framework = "",
          .accepts = accepts(),
          .documents = {{.keys = joined<Key>({plan_keys(), adapter_keys(), other_keys()}),
                         .write = write_yaml,
                         .file = "axolotl.yaml"}},
          .launch = launch(),
          .conflicts = conflicts(),
          .notes = [](const ExportRequest& h) -> std::vector<std::string> {
            if (h.chosen.packing)
              return {
                  "base_model is the folder or name of the weights; how long packed documents are "
                  "is in the data"};
            return {
                "base_model is the folder or name of the weights; sequences shorter than "
                "sequence_len cost less than predicted unless they are packed"};
          },
          .start = start,
          .settle = settle};
}

}  // namespace plansearch::exporters
