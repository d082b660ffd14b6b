// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's configuration file, for any training script that calls deepspeed.initialize.
//
// Keys and rules: deepspeedai/DeepSpeed@edaa7221 (2026-08-22)
//   deepspeed/runtime/config.py: DeepSpeedConfig (_batch_assertion, sequence_parallel_size)
//   deepspeed/runtime/zero/config.py: DeepSpeedZeroConfig (unknown keys are errors)
//   (runtime/config.py refuses mics_shard_size since 0.19.8)
// Pipeline and tensor degrees are given in code there: --to megatron-deepspeed.
#include "exporters/megatron_model.hpp"
#include "exporters/offload_words.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

void read_micro_batch(Reading& r, const Value& v) {
  if (is_left_open(v)) return;
  r.degrees.micro_batch = count_in(v);
  r.open.erase(Degree::MicroBatch);
}
void read_accumulation(Reading& r, const Value& v) {
  if (!is_left_open(v)) r.degrees.micro_batches = count_in(v);
}

constexpr std::string_view kBf16 = "bf16";
constexpr std::string_view kFp16 = "fp16";
/// "auto" is the script's.
template <const std::string_view* Format>
void read_format(Reading& r, const Value& v) {
  if (is_left_open(v)) {
    if (r.asked.precision == "fp32") r.asked.precision.reset();
  } else if (is_on(v)) {
    r.asked.precision = *Format;
  }
}

/// What DeepSpeed does where its configuration says nothing; the script decides the rest.
void start(Reading& r) {
  start_deepspeed(r);
  r.asked.framework = "deepspeed";
}

void settle(Reading& r) {
  settle_deepspeed(r);
  settle_ranks(r);
  settle_batch(r);
  settle_unsharded_bf16(r);
  settle_overlap(r);
  r.notes.emplace_back("recomputation, attention and sequence length are the script's");
}

}  // namespace

void start_deepspeed(Reading& r) {
  r.degrees.data = 0;
  r.degrees.micro_batches = 0;
  r.open.insert(Degree::MicroBatch);
  r.open.insert(Degree::Recompute);
  r.asked.precision = "fp32";
}

Conflict unsharded_bf16() {
  return {"bf16 at zero 0 (DeepSpeed's optimizer of bf16 shards states then too: zero 1)",
          [](const ExportRequest& h) {
            return h.problem.precision == DataType::Bf16 && h.degrees.zero == ZeroStage::None &&
                   h.degrees.data * h.degrees.context > 1 && h.chosen.main_grads != "bf16";
          }};
}

void settle_unsharded_bf16(Reading& r) {
  const bool ranks = r.degrees.data * r.degrees.context > 1;
  if (!ranks || r.asked.precision != "bf16" || r.degrees.zero != ZeroStage::None) return;
  if (r.asked.main_grads == "bf16") return;
  r.degrees.zero = ZeroStage::Optimizer;
  r.notes.emplace_back("DeepSpeed's optimizer of bf16 shards states at stage 0 too: zero 1");
}

/// zero/config.py: overlap_comm is on for stage 3 where nothing says it.
void settle_deepspeed(Reading& r) {
  const bool said = r.says("zero_optimization.overlap_comm") &&
                    !is_left_open(r.value("zero_optimization.overlap_comm"));
  const bool on = said ? is_on(r.value("zero_optimization.overlap_comm"))
                       : r.degrees.zero == ZeroStage::Parameters;
  r.hide(Overlap::GradientReduction, on);
  r.hide(Overlap::ParameterGather, on);
}

// clang-format off
std::vector<Key> deepspeed_keys() {
  return {
      {"train_batch_size", {S::GlobalBatch, s(D::Data), S::Gpus}, kBatch,
       [](Reading& r, const Value& v) { if (!is_left_open(v)) r.asked.batch = whole_number(v); }},
      {"train_micro_batch_size_per_gpu", {s(D::MicroBatch)}, degree<&PlanDegrees::micro_batch>,
       read_micro_batch},
      {"gradient_accumulation_steps", {S::MicroBatches}, degree<&PlanDegrees::micro_batches>,
       read_accumulation},
      {"bf16.enabled", {S::Precision},
       [](const ExportRequest& h) { return Value(h.problem.precision == DataType::Bf16); },
       read_format<&kBf16>},
      {"fp16.enabled", {S::Precision},
       [](const ExportRequest& h) { return Value(h.problem.precision == DataType::Fp16); },
       read_format<&kFp16>},
      {"zero_optimization.stage", {s(D::Zero)},
       [](const ExportRequest& h) { return Value(h.sharded() ? static_cast<int>(h.degrees.zero) : 0); },
       [](Reading& r, const Value& v) { r.degrees.zero = static_cast<ZeroStage>(whole_number(v, 0, 3)); }},
      {"zero_optimization.overlap_comm",
       {setting_of(Overlap::GradientReduction), setting_of(Overlap::ParameterGather)},
       [](const ExportRequest& h) { return Value(h.overlaps(Overlap::GradientReduction)); },
       together},
      {"zero_optimization.offload_optimizer.device", {kOffload},
       [](const ExportRequest& h) { return host_tensors(h.degrees.on_host).optimizer ? Value("cpu") : Value(); },
       [](Reading& r, const Value& v) { if (text_in(v) == "cpu") r.offload("optimizer"); }},
      {"zero_optimization.offload_optimizer.pin_memory", {kOffload},
       if_on_host<&HostTensors::optimizer>,
       together},
      {"zero_optimization.offload_param.device", {kOffload},
       [](const ExportRequest& h) { return host_tensors(h.degrees.on_host).parameters ? Value("cpu") : Value(); },
       [](Reading& r, const Value& v) { if (text_in(v) == "cpu") r.offload("parameters"); }},
      {"zero_optimization.offload_param.pin_memory", {kOffload},
       if_on_host<&HostTensors::parameters>,
       together},
      {"activation_checkpointing.cpu_checkpointing", {kOffload},
       if_on_host<&HostTensors::activations>,
       [](Reading& r, const Value& v) { if (is_on(v)) r.offload("activations"); }},
      {"data_types.grad_accum_dtype", {kMainGradients},
       [](const ExportRequest& h) { return h.chosen.main_grads ? Value(*h.chosen.main_grads) : Value(); },
       [](Reading& r, const Value& v) { if (!is_left_open(v)) r.asked.main_grads = text_in(v); }},
  };
}

namespace {

std::vector<Key> own_keys() {
  const std::vector<Key> own{
      {"sequence_parallel_size", {s(D::Context), s(D::ContextKind)},
       [](const ExportRequest& h) { return h.degrees.context > 1 ? Value(h.degrees.context) : Value(); },
       [](Reading& r, const Value& v) { r.degrees.context = count_in(v); r.degrees.context_kind = ContextKind::Ulysses; }},
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
                      {S::Checkpoints, {}, By::Script},
                      {kMainGradients, {"bf16", "fp16", "fp32"}},
                      {kOffload, deepspeed_offloads()},
                      {setting_of(plansearch::Setting::Implementation), {}, By::Script},
                      {setting_of(plansearch::Setting::Kernels), {}, By::Script},
                      {setting_of(plansearch::Setting::LoraRank), {}, By::Script},
                      {setting_of(plansearch::Setting::LoraTargets), {}, By::Script},
                      {setting_of(Overlap::ContextRing), {kOff}, By::Target}},
          .documents = {{.keys = own_keys(), .write = write_json, .file = "ds_config.json"}},
          .launch = launch(),
          .conflicts = {unsharded_bf16()},
          .notes = notes,
          .start = start,
          .settle = settle};
}

}  // namespace plansearch::exporters
