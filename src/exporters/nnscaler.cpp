// SPDX-License-Identifier: Apache-2.0
// Source: microsoft/nnscaler@1585c15d (2025-08-15)
//   nnscaler/cli/trainer_args.py: TrainerArgs, __post_init__ (batch sizes)
//   nnscaler/parallel.py: ComputeConfig, apply_pipeline_scheduler
//   nnscaler/policies.py: pas_dp, pas_hybrid (stages of equal numbers of operators)
//   nnscaler/graph/schedule/predefined.py: PredefinedSched
#include <algorithm>

#include "exporters/exporter.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

bool pipelined(const ExportRequest& h) {
  return h.degrees.pipeline > 1;
}

Value scheduler(const ExportRequest& h) {
  if (!pipelined(h)) return {};
  const std::string order = value_of(s(D::Schedule), h);
  return Value(order == "interleaved" ? "1f1b_interleaved" : order);
}

/// Micro-batches are the pipeline's where there is one; either way a step gathers as many.
template <auto Function>
Value of_pipeline(const ExportRequest& h) {
  return pipelined(h) ? Value(std::invoke(Function, h)) : Value();
}

int stages(const ExportRequest& h) {
  return h.virtual_stages();
}
int devices(const ExportRequest& h) {
  return h.degrees.pipeline;
}
int micro_batches(const ExportRequest& h) {
  return h.degrees.micro_batches;
}

// clang-format off
std::vector<Key> keys() {
  return {
      // A scale unit holds the network once; the others are its data ranks.
      {"compute_config.plan_ngpus", {s(D::Pipeline)}, degree<&PlanDegrees::pipeline>},
      {"compute_config.runtime_ngpus", {S::Gpus, s(D::Data)}, [](const ExportRequest& h) { return Value(h.problem.gpus); }},
      {"compute_config.use_end2end", {}, constant<true>},
      {"compute_config.use_zero", {s(D::Zero)},
       [](const ExportRequest& h) { return Value(h.sharded() && h.degrees.zero == ZeroStage::Optimizer); }},
      {"compute_config.use_async_reducer", {setting_of(Overlap::GradientReduction)},
       [](const ExportRequest& h) { return Value(h.overlaps(Overlap::GradientReduction)); }},
      {"compute_config.pas_config.pipeline_nstages", {s(D::Pipeline), s(D::Chunks)}, of_pipeline<stages>},
      {"compute_config.pas_config.pp_size", {s(D::Pipeline)}, of_pipeline<devices>},
      {"compute_config.pas_config.pipeline_nmicros", {S::MicroBatches}, of_pipeline<micro_batches>},
      {"compute_config.pas_config.pipeline_scheduler", {s(D::Schedule)}, scheduler},
      {"pas_policy", {s(D::Pipeline)}, [](const ExportRequest& h) { return Value(pipelined(h) ? "hybrid" : "dp"); }},
      {"micro_batch_size", {s(D::MicroBatch)}, degree<&PlanDegrees::micro_batch>},
      {"global_batch_size", {S::GlobalBatch}, [](const ExportRequest& h) { return Value(h.problem.global_batch); }},
      {"grad_accumulation_steps", {S::MicroBatches}, degree<&PlanDegrees::micro_batches>},
      {"precision", {S::Precision}, [](const ExportRequest& h) { return Value(to_text(h.problem.precision)); }},
  };
}
// clang-format on

std::vector<Accepts> accepts() {
  return {{s(D::Zero), {"0", "1"}},
          {s(D::Schedule), {"1f1b", "gpipe", "interleaved"}},
          {S::Precision, {"bf16", "fp16", "fp32"}},
          {S::SequenceLength, {}, By::Script},
          {S::Optimizer, {}, By::Script},
          {S::Attention, {}, By::Script},
          {S::RankOrder, {"dp-pp", "pp-dp"}, By::Target},
          {S::Layers, {kEven, kOwnSplit}, By::Target},
          {S::Model, {}, By::Script},
          {setting_of(Overlap::PipelineSend), {kOff}, By::Target},
          {setting_of(Overlap::ParameterGather), {kOff}, By::Target}};
}

Launch launch() {
  return {.script = "-m nnscaler.cli.train",
          .arguments = "-f \"$PLAN_CONFIG\" \"${TRAIN_ARGS[@]}\""};
}

}  // namespace

Exporter nnscaler_exporter() {
  return {
      .title = "arguments of nnscaler.cli.train",
      .checked = "microsoft/nnscaler@1585c15d (2025-08-15)",
      .framework = "nnscaler",
      .accepts = accepts(),
      .documents = {{.keys = keys(), .write = write_yaml, .file = "train.yaml"}},
      .launch = launch(),
      // ComputeConfig: overlap of reductions is for modules without a pipeline (autodist, too).
      .conflicts = {{"gradients that hide behind the backward pass of a pipeline",
                     [](const ExportRequest& h) {
                       return pipelined(h) && h.chosen.overlap &&
                              h.overlaps(Overlap::GradientReduction);
                     }}},
      .notes = [](const ExportRequest& h) -> std::vector<std::string> {
        std::vector<std::string> notes{
            "model, optimizer, dataset and dataloader are the rest of the file",
            "tensor parallelism and recomputation need names of the traced graph: in the "
            "pas_policy "
            "of the training script"};
        if (pipelined(h))
          notes.emplace_back(
              "stages get equal numbers of operators of the traced graph, not layers");
        return notes;
      },
  };
}

}  // namespace plansearch::exporters
