// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's configuration file, for any training script that calls deepspeed.initialize.
//
// Keys and rules: deepspeedai/DeepSpeed@edaa7221 (2026-08-22)
//   deepspeed/runtime/config.py: DeepSpeedConfig (_batch_assertion, sequence_parallel_size)
//   deepspeed/runtime/zero/config.py: DeepSpeedZeroConfig (unknown keys are errors)
//   (runtime/config.py refuses mics_shard_size since 0.19.8)
// Pipeline and tensor degrees are given in code there: --to megatron-deepspeed.
#include "exporters/megatron_model.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

}  // namespace

// clang-format off
std::vector<Key> deepspeed_keys() {
  return {
      {"train_batch_size", {S::GlobalBatch, s(D::Data), S::Gpus}, of_problem<&Problem::global_batch>},
      {"train_micro_batch_size_per_gpu", {s(D::MicroBatch)}, degree<&PlanDegrees::micro_batch>},
      {"gradient_accumulation_steps", {S::MicroBatches}, degree<&PlanDegrees::micro_batches>},
      {"bf16.enabled", {S::Precision},
       [](const ExportRequest& h) { return Value(h.problem.precision == DataType::Bf16); }},
      {"fp16.enabled", {S::Precision},
       [](const ExportRequest& h) { return Value(h.problem.precision == DataType::Fp16); }},
      {"zero_optimization.stage", {s(D::Zero)},
       [](const ExportRequest& h) { return Value(h.sharded() ? static_cast<int>(h.degrees.zero) : 0); }},
      {"zero_optimization.overlap_comm",
       {setting_of(Overlap::GradientReduction), setting_of(Overlap::ParameterGather)},
       [](const ExportRequest& h) { return Value(h.overlaps(Overlap::GradientReduction)); }},
      {"zero_optimization.offload_optimizer.device", {kOffload},
       [](const ExportRequest& h) { return h.problem.framework->offloads_optimizer ? Value("cpu") : Value(); }},
      {"zero_optimization.offload_optimizer.pin_memory", {kOffload},
       [](const ExportRequest& h) { return h.problem.framework->offloads_optimizer ? Value(true) : Value(); }},
      {"data_types.grad_accum_dtype", {kMainGradients},
       [](const ExportRequest& h) { return h.chosen.main_grads ? Value(*h.chosen.main_grads) : Value(); }},
  };
}

namespace {

std::vector<Key> own_keys() {
  const std::vector<Key> own{
      {"sequence_parallel_size", {s(D::Context), s(D::ContextKind)},
       [](const ExportRequest& h) { return h.degrees.context > 1 ? Value(h.degrees.context) : Value(); }},
  };
  return joined<Key>({deepspeed_keys(), own});
}

std::vector<std::string> notes(const ExportRequest&) {
  return {"not in a plan: model, data, optimizer settings, clipping"};
}

Launch launch() {
  return {.script = "train.py",
                     .arguments =
                         "--deepspeed --deepspeed_config \"$PLAN_CONFIG\" \"${TRAIN_ARGS[@]}\""};
}

}  // namespace
// clang-format on

Exporter deepspeed_exporter() {
  return {.title = "DeepSpeed configuration",
          .checked = "deepspeedai/DeepSpeed@edaa7221 (2026-08-22)",
          .framework = "deepspeed",
          .accepts = {{s(D::ContextKind), {"ulysses"}},
                      {s(D::Recompute), {"none", "full"}, By::Script},
                      {S::SequenceLength, {}, By::Script},
                      {S::Precision, {"bf16", "fp16", "fp32"}},
                      {S::Optimizer, {}, By::Script},
                      {S::Attention, {}, By::Script},
                      {S::RankOrder, {"cp-dp"}, By::Target},
                      {S::Model, {}, By::Script},
                      {kMainGradients, {"bf16", "fp16", "fp32"}},
                      {kOffload, {"none", "optimizer"}},
                      {setting_of(plansearch::Setting::Implementation), {}, By::Script},
                      {setting_of(plansearch::Setting::Kernels), {}, By::Script},
                      {setting_of(plansearch::Setting::LoraRank), {}, By::Script},
                      {setting_of(plansearch::Setting::LoraTargets), {}, By::Script},
                      {setting_of(Overlap::ContextRing), {kOff}, By::Target}},
          .documents = {{.keys = own_keys(), .write = write_json, .file = "ds_config.json"}},
          .launch = launch(),
          .notes = notes};
}

}  // namespace plansearch::exporters
