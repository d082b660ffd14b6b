// SPDX-License-Identifier: Apache-2.0
// LLaMA-Factory: the YAML file of `llamafactory-cli train`.
//
// Keys and rules: hiyouga/LLaMA-Factory@ff6d4d12 (2026-08-18)
//   src/llamafactory/hparams/{model,data,finetuning,training}_args.py; parser.py: get_train_args
//   huggingface/transformers v5.24 training_args.py: _process_fsdp_args (fsdp, fsdp_config)
#include <fmt/format.h>

#include <algorithm>

#include "base/names.hpp"
#include "exporters/hugging_face.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

Value in_fsdp(const ExportRequest& h, Value value) {
  return fully_shards(h) ? value : Value();
}

/// lora_target and additional_target are texts with commas.
Value with_commas(const Value& list) {
  if (list.is_null()) return {};
  std::string text;
  for (const Value& word : list) text += (text.empty() ? "" : ",") + word.get<std::string>();
  return Value(text);
}

std::string attention(const ExportRequest& h) {
  return h.attention == "unfused" ? "disabled" : "fa2";
}

constexpr Setting kTask = setting_of(plansearch::Setting::Task);
constexpr Setting kPaged = setting_of(plansearch::Setting::PagedStates);

/// finetuning_args.py: RLHFArguments.
std::string stage(const ExportRequest& h) {
  if (h.chosen.task == "pretrain") return "pt";
  return h.chosen.task == "dpo" ? "dpo" : "sft";
}

void read_stage(Reading& r, const Value& v) {
  const std::string word = text_in(v);
  if (word == "pt") r.asked.task = "pretrain";
  if (word == "dpo") r.asked.task = "dpo";
  if (word != "pt" && word != "dpo" && word != "sft")
    throw WrongValue(fmt::format("stage {} has no price", word));
}

// clang-format off
std::vector<Key> plan_keys() {
  return {
      {"model_name_or_path", {}, [](const ExportRequest& h) { return Value(h.model().name); },
       [](Reading& r, const Value& v) { r.named = text_in(v); }, true},
      {"stage", {kTask}, value_from<stage>, read_stage},
      {"do_train", {}, constant<true>, together},
      {"cutoff_len", {S::SequenceLength}, kSequence},
      // packing alone lets documents see each other; neat_packing does not.
      {"packing", {kPacking}, packs, together},
      {"neat_packing", {kPacking}, packs, read_packing},
      // Of pairs where the task has them.
      {"per_device_train_batch_size", {s(D::MicroBatch)},
       [](const ExportRequest& h) { return Value(h.degrees.micro_batch / (h.chosen.task == "dpo" ? 2 : 1)); },
       read_degree<&PlanDegrees::micro_batch>},
      {"gradient_accumulation_steps", {S::MicroBatches, S::GlobalBatch, s(D::Data), S::Gpus}, degree<&PlanDegrees::micro_batches>},
      {"disable_gradient_checkpointing", {s(D::Recompute)},
       [](const ExportRequest& h) { return Value(h.degrees.recompute != Recompute::Full); },
       [](Reading& r, const Value& v) { r.degrees.recompute = is_on(v) ? Recompute::None : Recompute::Full; }},
      // FSDP 2 recomputes without reentrance.
      {"use_reentrant_gc", {s(D::Zero)}, [](const ExportRequest& h) { return in_fsdp(h, Value(false)); }, together},
      {"fsdp", {s(D::Zero)},
       [](const ExportRequest& h) {
         return in_fsdp(h, Value(h.degrees.zero == ZeroStage::Parameters ? "full_shard auto_wrap" : "shard_grad_op auto_wrap"));
       },
       together},
      {"fsdp_config.version", {s(D::Zero)}, [](const ExportRequest& h) { return in_fsdp(h, Value(2)); }, together},
      {"fsdp_config.reshard_after_forward", {s(D::Zero)},
       [](const ExportRequest& h) { return in_fsdp(h, Value(h.degrees.zero == ZeroStage::Parameters)); }, together},
      {"bf16", {S::Precision}, [](const ExportRequest& h) { return Value(h.problem.precision == DataType::Bf16); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "bf16"; }},
      {"fp16", {S::Precision}, [](const ExportRequest& h) { return Value(h.problem.precision == DataType::Fp16); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "fp16"; }},
      {"flash_attn", {S::Attention}, value_from<attention>,
       [](Reading& r, const Value& v) { if (text_in(v) == "disabled") r.asked.attention = "unfused"; }},
      {"optim", {S::Optimizer, kStates, kPaged}, value_from<optimizer_name>, read_optimizer_name},
  };
}

std::vector<Key> adapter_keys() {
  return {
      {"finetuning_type", {kLoraRank},
       [](const ExportRequest& h) { return adapters_of(h) != nullptr ? Value("lora") : Value(); }, together},
      {"finetuning_type", {S::Model},
       [](const ExportRequest& h) { return adapters_of(h) == nullptr ? Value("full") : Value(); }},
      {"lora_rank", {kLoraRank},
       [](const ExportRequest& h) { return adapters_of(h) != nullptr ? Value(adapters_of(h)->rank) : Value(); }, together},
      {"lora_target", {kLoraTargets, kLoraRank},
       [](const ExportRequest& h) { return adapts_all(h) ? Value("all") : with_commas(adapter_modules(h)); }, together},
      {"additional_target", {kLoraTargets},
       [](const ExportRequest& h) { return with_commas(trained_tables(h)); }, together},
      {"quantization_bit", {kBasePrecision},
       [](const ExportRequest& h) {
         if (h.chosen.base_precision == "nf4") return Value(4);
         return h.chosen.base_precision == "int8" ? Value(8) : Value();
       },
       [](Reading& r, const Value& v) {
         if (!is_left_open(v)) r.asked.base_precision = count_in(v) == 8 ? "int8" : "nf4";
       }},
  };
}

std::vector<Key> other_keys() {
  return {
      {"dataset", {}, [](const ExportRequest&) { return Value("alpaca_en_demo"); }},
      {"template", {}, [](const ExportRequest&) { return Value("default"); }},
      {"max_steps", {}, constant<20>},
      {"learning_rate", {}, [](const ExportRequest&) { return Value(1e-4); }},
      {"output_dir", {S::Checkpoints},
       [](const ExportRequest& h) {
         return h.job.checkpoints.empty() ? Value(fmt::format("./plan-{}", h.identity)) : Value(h.job.checkpoints);
       },
       together},
      {"save_steps", {S::Checkpoints}, checkpoint_steps, together},
      only_read("deepspeed", together),
      only_read("fsdp_config.activation_checkpointing", read_flag_of_recompute),
      only_read("fsdp_config.fsdp_version", together),
      only_read("use_muon", [](Reading& r, const Value& v) { if (is_on(v)) r.asked.optimizer = "muon"; }),
      only_read("fp8", [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "fp8"; }),
      only_read("pure_bf16", [](Reading& r, const Value& v) { if (is_on(v)) r.asked.precision = "bf16"; }),
  };
}
// clang-format on

/// hparams/*_args.py and transformers' TrainingArguments.
void start(Reading& r) {
  r.asked.framework = "hf-trainer";
  r.asked.precision = "fp32";
  r.asked.seq_len = 2048;
  r.asked.optimizer = "adam";
  r.degrees.data = 0;
  r.degrees.micro_batch = 8;
  r.degrees.micro_batches = 1;
  r.degrees.recompute = Recompute::Full;
}

void settle_adapters(Reading& r) {
  const std::string type =
      r.says("finetuning_type") ? text_in(r.value("finetuning_type")) : std::string("lora");
  if (type == "full") return;
  if (type != "lora")
    throw Unsettled(fmt::format("finetuning_type {} has no price", type), "lora or full");
  r.asked.lora_rank = r.says("lora_rank") ? whole_number(r.value("lora_rank"), 1, 1 << 16) : 8;
  if (r.says("lora_target")) {
    read_adapter_modules(r, r.value("lora_target"), "all");
  } else {
    r.asked.lora_targets = "all-linear";
  }
  if (r.says("additional_target") && !is_left_open(r.value("additional_target")))
    read_trained_tables(r, r.value("additional_target"));
}

void settle(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (r.asked.task == "dpo") d.micro_batch *= 2;
  if (r.says("deepspeed") && !is_left_open(r.value("deepspeed")))
    throw Unsettled("deepspeed: the file that it names says how states are sharded",
                    "leave the key out and type --zero N, or import the file itself");
  const std::string words = r.says("fsdp") ? canonical_name(r.value("fsdp").dump()) : "";
  if (r.says("fsdp") && is_on(r.value("fsdp"))) {
    d.zero = ZeroStage::Parameters;
    const bool kept = r.says("fsdp_config.reshard_after_forward") &&
                      !is_on(r.value("fsdp_config.reshard_after_forward"));
    if (kept || words.find("shard-grad-op") != std::string::npos) d.zero = ZeroStage::Gradients;
  }
  settle_adapters(r);
  settle_ranks(r);
  settle_batch(r);
}

std::vector<Accepts> accepts() {
  const std::vector<Accepts> own{{S::RankOrder, {"dp"}, By::Target},
                                 {S::Model, {}, By::Script},
                                 {kTask, {"pretrain", "sft", "lora", "dpo"}},
                                 {kPaged, {"0", "1"}},
                                 {kPacking}};
  return joined<Accepts>({own, accepts_of_trainer()});
}

std::vector<Conflict> conflicts() {
  return {fused_adapters(),
          // parser.py: stages other than sft refuse neat_packing.
          {"packed documents outside supervised training (--task pretrain or dpo)",
           [](const ExportRequest& h) {
             return h.chosen.packing && (h.chosen.task == "pretrain" || h.chosen.task == "dpo");
           }},
          // collator.py: SFTDataCollatorWith4DAttentionMask asserts one row.
          {"packed documents in several sequences to a micro-batch",
           [](const ExportRequest& h) { return h.chosen.packing && h.degrees.micro_batch > 1; }}};
}

Launch launch() {
  return {.script = "src/train.py", .arguments = "\"$PLAN_CONFIG\" \"${TRAIN_ARGS[@]}\""};
}

}  // namespace

Exporter llama_factory_exporter() {
  return {.title = "configuration of llamafactory-cli train",
          .checked = "hiyouga/LLaMA-Factory@ff6d4d12 (2026-08-18)",
          .framework = "",
          .accepts = accepts(),
          .documents = {{.keys = joined<Key>({plan_keys(), adapter_keys(), other_keys()}),
                         .write = write_yaml,
                         .file = "llama_factory.yaml"}},
          .launch = launch(),
          .conflicts = conflicts(),
          .notes = [](const ExportRequest&) -> std::vector<std::string> {
            return {
                "model_name_or_path is the folder or name of the weights; the template is the "
                "network's"};
          },
          .start = start,
          .settle = settle};
}

}  // namespace plansearch::exporters
