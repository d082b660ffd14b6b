// SPDX-License-Identifier: Apache-2.0
// verl: overrides of verl.trainer.main_ppo, for the worker that updates the policy: by
// Megatron-LM, or by FSDP 2 with Ulysses.
//
// Keys and rules: volcengine/verl@b178a3cd (2026-01-29)
//   verl/trainer/config/ppo_megatron_trainer.yaml, ppo_trainer.yaml, actor/*.yaml, engine/*.yaml
//   verl/workers/config/engine.py: McoreEngineConfig, FSDPEngineConfig
//   verl/workers/fsdp_workers.py: create_device_mesh; verl/utils/megatron_utils.py: get_model
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "exporters/hugging_face.hpp"
#include "exporters/megatron_adapters.hpp"
#include "exporters/megatron_model.hpp"
#include "exporters/megatron_reading.hpp"
#include "exporters/megatron_words.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

constexpr std::string_view kMegatron = "actor_rollout_ref.actor.megatron.";
constexpr std::string_view kTransformer =
    "actor_rollout_ref.actor.megatron.override_transformer_config.";
constexpr std::string_view kDdp = "actor_rollout_ref.actor.megatron.override_ddp_config.";
constexpr std::string_view kUpdate = "actor_rollout_ref.actor.optim.override_optimizer_config.";

Value if_on(bool on) {
  return on ? Value("true") : Value();
}
Value number_or_null(bool said, int number) {
  return said ? Value(number) : Value("null");
}

/// Hydra's lists.
std::string in_brackets(const Value& words) {
  std::vector<std::string> list;
  for (const Value& word : words) list.push_back(word.get<std::string>());
  return fmt::format("[{}]", fmt::join(list, ","));
}
Value words_in_brackets(const Value& value) {
  if (value.is_array()) return value;
  std::string text = text_in(value);
  std::erase_if(
      text, [](char c) { return std::string_view("[]'\" ").find(c) != std::string_view::npos; });
  Value list = Value::array();
  for (const std::string& word : words_of(text, ",")) list.push_back(word);
  return list;
}

std::int64_t number_or(const Reading& r, const char* key, std::int64_t otherwise) {
  return r.says(key) && !is_left_open(r.value(key)) ? whole_number(r.value(key)) : otherwise;
}

constexpr const char* kMini = "actor_rollout_ref.actor.ppo_mini_batch_size";
constexpr const char* kAnswers = "actor_rollout_ref.rollout.n";

// Products and sums of two keys, whichever is read last.
void read_batch(Reading& r, const Value& /*value*/) {
  r.asked.batch = number_or(r, kMini, 256) * number_or(r, kAnswers, 1);
}
void read_length(Reading& r, const Value& /*value*/) {
  r.asked.seq_len =
      number_or(r, "data.max_prompt_length", 512) + number_or(r, "data.max_response_length", 512);
}
void read_processes(Reading& r, const Value& /*value*/) {
  const std::int64_t all =
      number_or(r, "trainer.nnodes", 1) * number_or(r, "trainer.n_gpus_per_node", 8);
  r.asked.gpus = count_in(Value(all));
}

// clang-format off
/// The batch in sequences, the length in two halves, the processes: whatever the worker.
std::vector<Key> common_keys() {
  return {
      {"actor_rollout_ref.model.path", {}, [](const ExportRequest& h) { return hydra_text(h.model().name); },
       [](Reading& r, const Value& v) { r.named = text_in(v); }, true},
      {"actor_rollout_ref.actor.ppo_mini_batch_size", {S::GlobalBatch, S::MicroBatches, s(D::Data), S::Gpus}, kBatch, read_batch},
      // Answers to a prompt, each a sequence of the batch.
      {"actor_rollout_ref.rollout.n", {S::GlobalBatch}, constant<1>, read_batch},
      {"actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", {s(D::MicroBatch)}, degree<&PlanDegrees::micro_batch>,
       [](Reading& r, const Value& v) { if (!is_left_open(v)) r.degrees.micro_batch = count_in(v); }},
      {"actor_rollout_ref.actor.use_dynamic_bsz", {s(D::MicroBatch)}, [](const ExportRequest&) { return Value("false"); }, together},
      {"data.train_batch_size", {S::GlobalBatch}, [](const ExportRequest& h) { return Value(h.problem.global_batch); }, together},
      {"data.max_prompt_length", {S::SequenceLength}, [](const ExportRequest& h) { return Value(h.problem.seq_len / 2); }, read_length},
      {"data.max_response_length", {S::SequenceLength},
       [](const ExportRequest& h) { return Value(h.problem.seq_len - h.problem.seq_len / 2); }, read_length},
      {"trainer.nnodes", {S::Gpus}, value_from<&ExportRequest::nodes>, read_processes},
      {"trainer.n_gpus_per_node", {S::Gpus}, value_from<&ExportRequest::gpus_per_node>, read_processes},
      {"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu", {}, degree<&PlanDegrees::micro_batch>.write, together},
      {"actor_rollout_ref.rollout.tensor_model_parallel_size", {}, constant<1>, together},
      {"trainer.default_local_dir", {S::Checkpoints}, hydra_checkpoint_folder, together},
      {"trainer.save_freq", {S::Checkpoints}, checkpoint_steps, together},
      only_read("actor_rollout_ref.actor.strategy", together),
      only_read("actor_rollout_ref.actor.ppo_max_token_len_per_gpu", together),
      // Between updates these lie on the host; an update takes as long and as much.
      only_read("actor_rollout_ref.actor.megatron.param_offload", together),
      only_read("actor_rollout_ref.actor.megatron.grad_offload", together),
      only_read("actor_rollout_ref.actor.megatron.optimizer_offload", together),
      only_read("actor_rollout_ref.actor.fsdp_config.param_offload", together),
      only_read("actor_rollout_ref.actor.fsdp_config.optimizer_offload", together),
  };
}

std::vector<Key> megatron_keys() {
  return {
      {"actor_rollout_ref.actor.megatron.tensor_model_parallel_size", {s(D::TensorOut)}, degree<&PlanDegrees::tensor_out>},
      {"actor_rollout_ref.actor.megatron.sequence_parallel", {s(D::SequenceParallel)},
       [](const ExportRequest& h) { return spelled_out(h.spreads_tokens()); },
       read_sequence_parallel},
      {"actor_rollout_ref.actor.megatron.pipeline_model_parallel_size", {s(D::Pipeline), s(D::Schedule)}, degree<&PlanDegrees::pipeline>},
      {"actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size", {s(D::Chunks), s(D::Schedule)},
       [](const ExportRequest& h) { return number_or_null(h.degrees.chunks > 1, h.degrees.chunks); }, together},
      {"+actor_rollout_ref.actor.megatron.override_transformer_config.pipeline_model_parallel_layout", {S::Layers},
       [](const ExportRequest& h) { return is_even(h.stages) ? Value() : Value(layout_of(h.stages)); }, together},
      {"actor_rollout_ref.actor.megatron.context_parallel_size", {s(D::Context)}, degree<&PlanDegrees::context>},
      {"+actor_rollout_ref.actor.megatron.override_transformer_config.cp_comm_type", {s(D::ContextKind)}, context_word, read_context_kind},
      {"actor_rollout_ref.actor.megatron.expert_model_parallel_size", {s(D::Expert)}, degree<&PlanDegrees::expert>},
      {"actor_rollout_ref.actor.megatron.expert_tensor_parallel_size", {s(D::ExpertTensor)}, degree<&PlanDegrees::expert_tensor>,
       [](Reading& r, const Value& v) { if (!is_left_open(v)) r.degrees.expert_tensor = count_in(v); }},
      {"actor_rollout_ref.actor.megatron.use_distributed_optimizer", {s(D::Zero)},
       [](const ExportRequest& h) { return spelled_out(h.sharded()); }, together},
      {"actor_rollout_ref.actor.megatron.dtype", {S::Precision},
       [](const ExportRequest& h) { return Value(h.problem.precision == DataType::Fp16 ? "float16" : "bfloat16"); },
       [](Reading& r, const Value& v) { r.asked.precision = text_in(v) == "float16" ? "fp16" : "bf16"; }},
      {"+actor_rollout_ref.actor.megatron.override_ddp_config.overlap_grad_reduce", {setting_of(Overlap::GradientReduction)},
       [](const ExportRequest& h) { return if_on(hides_gradients(h)); },
       [](Reading& r, const Value& v) { r.hide(Overlap::GradientReduction, is_on(v)); }},
      {"+actor_rollout_ref.actor.megatron.override_ddp_config.overlap_param_gather", {setting_of(Overlap::ParameterGather)},
       [](const ExportRequest& h) { return if_on(hides_gathers(h)); },
       [](Reading& r, const Value& v) { r.hide(Overlap::ParameterGather, is_on(v)); }},
      {"+actor_rollout_ref.actor.megatron.override_ddp_config.grad_reduce_in_fp32", {kMainGradients},
       [](const ExportRequest& h) { return h.chosen.main_grads == "bf16" ? Value("false") : Value(); },
       [](Reading& r, const Value& v) { if (!is_on(v)) r.asked.main_grads = "bf16"; }},
      {"+actor_rollout_ref.actor.megatron.override_transformer_config.tp_comm_overlap", {setting_of(Overlap::TensorParallel)},
       [](const ExportRequest& h) { return if_on(hides_tensor_messages(h)); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.hide(Overlap::TensorParallel, true); }},
  };
}

std::vector<Key> transformer_keys() {
  return {
      {"actor_rollout_ref.actor.megatron.override_transformer_config.recompute_granularity", {s(D::Recompute)},
       [](const ExportRequest& h) { return Value(h.degrees.recompute == Recompute::None ? "null" : std::string(to_text(h.degrees.recompute))); }, together},
      {"actor_rollout_ref.actor.megatron.override_transformer_config.recompute_method", {s(D::Recompute), s(D::RecomputeLayers)}, recompute_method, together},
      {"actor_rollout_ref.actor.megatron.override_transformer_config.recompute_num_layers", {s(D::Recompute), s(D::RecomputeLayers)}, recompute_layers, together},
      {"actor_rollout_ref.actor.megatron.override_transformer_config.recompute_modules", {setting_of(D::RecomputeModules)},
       [](const ExportRequest& h) {
         const Value modules = recomputed_modules(h);
         return modules.is_null() ? Value() : Value(in_brackets(modules));
       },
       together},
      {"actor_rollout_ref.actor.megatron.override_transformer_config.attention_backend", {S::Attention},
       [](const ExportRequest& h) { return Value(h.attention == "unfused" ? "unfused" : "flash"); },
       [](Reading& r, const Value& v) { if (text_in(v) == "unfused" || text_in(v) == "local") r.asked.attention = "unfused"; }},
      {"+actor_rollout_ref.actor.megatron.override_transformer_config.moe_token_dispatcher_type", {setting_of(D::Dispatcher)}, dispatcher_word, together},
      {"+actor_rollout_ref.actor.megatron.override_transformer_config.moe_enable_deepep", {setting_of(D::Dispatcher)},
       [](const ExportRequest& h) { return if_on(dispatcher_word(h) == Value("flex")); }, together},
      {"+actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_cpu_offload", {kOffload},
       [](const ExportRequest& h) { return if_on(offloads_optimizer(h)); },
       [](Reading& r, const Value& v) { if (is_on(v)) r.offload("optimizer"); }},
      {"+actor_rollout_ref.actor.optim.override_optimizer_config.optimizer_offload_fraction", {kOffload},
       [](const ExportRequest& h) { return offloads_optimizer(h) ? Value(1.0) : Value(); }, together},
      {"+actor_rollout_ref.actor.optim.override_optimizer_config.use_precision_aware_optimizer", {kOffload},
       [](const ExportRequest& h) { return if_on(offloads_optimizer(h)); }, together},
      {"actor_rollout_ref.actor.optim.optimizer", {S::Optimizer}, [](const ExportRequest& h) { return Value(h.optimizer); },
       [](Reading& r, const Value& v) { r.asked.optimizer = text_in(v); }},
      {"actor_rollout_ref.model.lora.rank", {kAdapterRank}, adapter_rank, together},
      {"actor_rollout_ref.model.lora.target_modules", {kAdapterTargets, kAdapterRank},
       [](const ExportRequest& h) {
         const Value words = megatron_adapters(h);
         if (words.is_null()) return Value();
         return Value(in_brackets(words.is_array() ? words : every_adapted_module(h)));
       },
       together},
      only_read("actor_rollout_ref.actor.megatron.override_transformer_config.num_layers_in_first_pipeline_stage", together),
      only_read("actor_rollout_ref.actor.megatron.override_transformer_config.num_layers_in_last_pipeline_stage", together),
      only_read("actor_rollout_ref.actor.megatron.override_transformer_config.account_for_embedding_in_pipeline_split", together),
      only_read("actor_rollout_ref.actor.megatron.override_transformer_config.account_for_loss_in_pipeline_split", together),
  };
}

std::vector<Key> fsdp_keys() {
  return {
      {"actor_rollout_ref.actor.strategy", {s(D::Zero)}, [](const ExportRequest&) { return Value("fsdp2"); }, together},
      {"actor_rollout_ref.actor.fsdp_config.fsdp_size", {s(D::ShardGroup)},
       [](const ExportRequest& h) {
         return Value(h.shard_ranks() == h.degrees.data ? -1 : h.shard_ranks() * h.degrees.context);
       },
       together},
      {"actor_rollout_ref.actor.fsdp_config.reshard_after_forward", {s(D::Zero)},
       [](const ExportRequest& h) { return spelled_out(h.degrees.zero == ZeroStage::Parameters); },
       [](Reading& r, const Value& v) { r.degrees.zero = is_on(v) ? ZeroStage::Parameters : ZeroStage::Gradients; }},
      {"actor_rollout_ref.actor.ulysses_sequence_parallel_size", {s(D::Context), s(D::ContextKind)}, degree<&PlanDegrees::context>},
      {"actor_rollout_ref.model.use_remove_padding", {s(D::Context)}, [](const ExportRequest&) { return Value("true"); }, together},
      {"actor_rollout_ref.model.enable_gradient_checkpointing", {s(D::Recompute)},
       [](const ExportRequest& h) { return spelled_out(h.degrees.recompute == Recompute::Full); },
       [](Reading& r, const Value& v) { r.degrees.recompute = is_on(v) ? Recompute::Full : Recompute::None; }},
      {"actor_rollout_ref.actor.fsdp_config.dtype", {S::Precision},
       [](const ExportRequest& h) { return Value(h.problem.precision == DataType::Fp16 ? "float16" : "bfloat16"); },
       [](Reading& r, const Value& v) { r.asked.precision = text_in(v) == "float16" ? "fp16" : "bf16"; }},
      {"+actor_rollout_ref.model.override_config.attn_implementation", {S::Attention},
       [](const ExportRequest& h) { return h.attention == "unfused" ? Value("eager") : Value(); },
       [](Reading& r, const Value& v) { if (text_in(v) == "eager") r.asked.attention = "unfused"; }},
      {"actor_rollout_ref.actor.optim.optimizer", {S::Optimizer},
       [](const ExportRequest& h) { return Value(h.optimizer == "sgd" ? "SGD" : "AdamW"); }, read_optimizer_name},
      {"actor_rollout_ref.model.lora_rank", {kLoraRank}, adapter_rank, together},
      {"actor_rollout_ref.model.target_modules", {kLoraTargets, kLoraRank},
       [](const ExportRequest& h) {
         if (adapters_of(h) == nullptr) return Value();
         return Value(adapts_all(h) ? std::string("all-linear") : in_brackets(adapter_modules(h)));
       },
       together},
      only_read("actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size", read_degree<&PlanDegrees::context>),
      only_read("actor_rollout_ref.actor.fsdp_config.strategy", together),
  };
}
// clang-format on

void start(Reading& r) {
  r.asked.precision = "bf16";
  r.asked.optimizer = "adam";
  r.asked.batch = 256;
  r.asked.seq_len = 1024;
  r.degrees.data = 0;
  r.degrees.micro_batch = 0;
  r.degrees.micro_batches = 0;
}

void start_by_megatron(Reading& r) {
  start(r);
  r.asked.framework = "megatron";
  r.degrees.sequence_parallel = SequenceParallel::On;
  r.degrees.expert_tensor = 0;  // the tensor degree
}

void start_by_fsdp(Reading& r) {
  start(r);
  r.asked.framework = "fsdp2";
  r.degrees.zero = ZeroStage::Parameters;
  r.degrees.context_kind = ContextKind::Ulysses;
  r.degrees.recompute = Recompute::Full;
}

/// Micro-batches that are filled by tokens hold as many sequences of full length as fit.
void settle_micro_batch(Reading& r) {
  const auto tokens = number_or(r, "actor_rollout_ref.actor.ppo_max_token_len_per_gpu", 16384);
  if (is_on(r.value("actor_rollout_ref.actor.use_dynamic_bsz"))) {
    const std::int64_t length = r.asked.seq_len.value_or(1024);
    r.degrees.micro_batch =
        static_cast<int>(std::clamp<std::int64_t>(tokens * r.degrees.context / length, 1, 1 << 20));
    r.notes.emplace_back(
        "micro-batches are filled by tokens (use_dynamic_bsz): priced with sequences of full "
        "length");
  }
  if (r.degrees.micro_batch == 0)
    throw Unsettled("nothing says ppo_micro_batch_size_per_gpu", "--micro-batch N");
}

void settle_by_megatron(Reading& r) {
  PlanDegrees& d = r.degrees;
  for (const std::string_view prefix : {kMegatron, kTransformer, kDdp, kUpdate})
    say_as_megatron(r, prefix);
  if (!r.says("--use-distributed-optimizer")) r.said["--use-distributed-optimizer"] = Value("true");
  if (r.says("--virtual-pipeline-model-parallel-size"))
    r.said["--num-virtual-stages-per-pipeline-rank"] =
        r.value("--virtual-pipeline-model-parallel-size");
  if (r.says("--recompute-modules"))
    r.said["--recompute-modules"] = words_in_brackets(r.value("--recompute-modules"));
  r.said["--accumulate-allreduce-grads-in-fp32"] = Value("true");
  const Value& dispatcher = r.value("--moe-token-dispatcher-type");
  if (dispatcher == Value("allgather")) d.dispatcher = find_dispatcher("all-gather").value();
  if (dispatcher == Value("flex")) d.dispatcher = find_dispatcher("deepep").value();
  if (d.expert_tensor == 0) d.expert_tensor = d.expert > 1 ? d.tensor_out : 1;
  const char* rank = "actor_rollout_ref.model.lora.rank";
  const char* modules = "actor_rollout_ref.model.lora.target_modules";
  if (r.says(rank) && whole_number(r.value(rank), 0) > 0) {
    if (r.says(modules)) r.said[modules] = words_in_brackets(r.value(modules));
    read_megatron_adapters(r, rank, modules);
  }
  settle_micro_batch(r);
  settle_megatron_plan(r);
}

void settle_by_fsdp(Reading& r) {
  PlanDegrees& d = r.degrees;
  if (r.says("actor_rollout_ref.actor.strategy") &&
      text_in(r.value("actor_rollout_ref.actor.strategy")) == "megatron")
    throw Unsettled("actor.strategy megatron: its keys begin with actor_rollout_ref.actor.megatron",
                    "--from verl");
  const char* rank = "actor_rollout_ref.model.lora_rank";
  const char* modules = "actor_rollout_ref.model.target_modules";
  if (r.says(rank) && whole_number(r.value(rank), 0) > 0) {
    r.asked.lora_rank = whole_number(r.value(rank));
    if (!r.says(modules)) r.said[modules] = Value("all-linear");
    read_adapter_modules(r, words_in_brackets(r.value(modules)), "all-linear");
  }
  if (d.context == 1) {
    d.context_kind = ContextKind::Ring;
  } else {
    r.asked.framework = "any";
    r.notes.emplace_back("FSDP alone has no context parallelism: priced as any");
  }
  settle_ranks(r);
  const char* size = "actor_rollout_ref.actor.fsdp_config.fsdp_size";
  if (r.says(size) && whole_number(r.value(size), -1) > 0) {
    const int group = count_in(r.value(size)) / d.context;
    if (group > 0 && group < d.data) d.shard_group = group;
  }
  settle_micro_batch(r);
  settle_batch(r);
}

std::vector<Accepts> megatron_accepts() {
  return {{s(D::Schedule), {"1f1b", "interleaved"}},
          {s(D::Zero), {"0", "1"}},
          {S::Precision, {"bf16", "fp16"}},
          {S::Optimizer, {"adam", "sgd"}},
          {S::Attention, {"flash", "unfused"}},
          {S::RankOrder, {"tp-cp-dp-pp"}, By::Target},
          {S::Model, {}, By::Script},
          {kMainGradients, {"bf16", "fp32"}, By::Key, "fp32"},
          {kOffload, {"none", "optimizer"}},
          {setting_of(D::Dispatcher), {"own", "all-gather", "deepep"}},
          {kAdapterTargets, {"all-linear", "attention", "mlp"}},
          {setting_of(Overlap::PipelineSend), {kOn}, By::Target},
          {setting_of(Overlap::ContextRing), {kOn}, By::Target}};
}

std::vector<Accepts> fsdp_accepts() {
  return {{s(D::ContextKind), {"ulysses"}},
          {s(D::Zero), {"2", "3"}},
          {s(D::Recompute), {"none", "full"}},
          {S::Precision, {"bf16", "fp16"}},
          {S::Optimizer, {"adam", "sgd"}},
          {S::Attention, {"flash", "unfused"}, By::Key, "flash"},
          {S::RankOrder, {"cp-dp"}, By::Target},
          {S::Model, {}, By::Script},
          {setting_of(plansearch::Setting::Implementation), {}, By::Script},
          {setting_of(plansearch::Setting::Kernels), {}, By::Script},
          {setting_of(Overlap::GradientReduction), {kOn}, By::Target},
          {setting_of(Overlap::ParameterGather), {kOn}, By::Target},
          {setting_of(Overlap::ContextRing), {kOff}, By::Target}};
}

std::vector<std::string> notes(const ExportRequest&) {
  return {"predicted is one update of the policy; answers, rewards and other workers come on top",
          "model.path is the folder or name of the weights; data.train_files and data.val_files "
          "are arguments of the script"};
}

Launch launch(std::string_view arguments) {
  return {.starter = Starter::Ray, .script = "-m verl.trainer.main_ppo", .arguments = arguments};
}

}  // namespace

Exporter verl_exporter() {
  return {.title = "overrides of verl.trainer.main_ppo, policy by Megatron-LM",
          .checked = "volcengine/verl@b178a3cd (2026-01-29)",
          .framework = "megatron",
          .accepts = megatron_accepts(),
          .documents = {{.keys = joined<Key>({common_keys(), megatron_keys(), transformer_keys()}),
                         .array = "VERL_ARGS"}},
          .launch = launch("--config-name=ppo_megatron_trainer \"${VERL_ARGS[@]}\" "
                           "\"${TRAIN_ARGS[@]}\""),
          .notes = notes,
          .start = start_by_megatron,
          .settle = settle_by_megatron};
}

Exporter verl_fsdp_exporter() {
  return {.title = "overrides of verl.trainer.main_ppo, policy by FSDP 2",
          .checked = "volcengine/verl@b178a3cd (2026-01-29)",
          .framework = "",
          .accepts = fsdp_accepts(),
          .documents = {{.keys = joined<Key>({common_keys(), fsdp_keys()}), .array = "VERL_ARGS"}},
          .launch = launch("\"${VERL_ARGS[@]}\" \"${TRAIN_ARGS[@]}\""),
          .conflicts = {fused_adapters(),
                        {"tables trained beside adapters (--lora-targets embedding, head)",
                         [](const ExportRequest& h) { return !trained_tables(h).is_null(); }}},
          .notes = notes,
          .start = start_by_fsdp,
          .settle = settle_by_fsdp};
}

}  // namespace plansearch::exporters
