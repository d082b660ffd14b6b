// SPDX-License-Identifier: Apache-2.0
// Source: pytorch/pytorch@00722e64 torch/distributed/pipelining/schedules.py: _Action.from_str,
// PipelineScheduleMulti._load_csv (a row a rank, computation alone), _validate_schedule (every
// stage once, every micro-batch on it); pytorch/torchtitan@b5bcd76c
// torchtitan/distributed/pipeline_parallel.py: build_pipeline_schedule
// (pipeline_parallel_schedule_csv).
#include <fmt/format.h>

#include <variant>

#include "exporters/exporter.hpp"
#include "io/plan/schedule_csv.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

using D = Degree;
using S = Setting;

std::optional<ComputeOrder> order_of(const ExportRequest& h) {
  if (h.degrees.pipeline == 1 || schedule_row(h.degrees.schedule).tuned) return std::nullopt;
  const PipelineShape shape = pipeline_shape(h.degrees, *h.problem.framework, *h.problem.network);
  if (obstacle_of(shape)) return std::nullopt;
  auto order = make_order(shape);
  if (auto* made = std::get_if<ComputeOrder>(&order)) return std::move(*made);
  return std::nullopt;
}

Value pipeline_order(const ExportRequest& h) {
  const auto order = order_of(h);
  return order && order->replicas == 1 && order->forwards == 1 ? Value(io::to_schedule_csv(*order))
                                                               : Value();
}

/// The format has no comments: the header stays on standard error.
std::string write_order(const std::vector<std::string>& /*header*/, const Entries& entries) {
  return entries.empty() ? std::string() : entries.front().value.get<std::string>();
}

std::vector<Accepts> accepts() {
  std::vector<Accepts> rows;
  for (const Degree degree :
       {D::Data, D::TensorOut, D::Context, D::ContextKind, D::Expert, D::ExpertTensor, D::Zero,
        D::ShardGroup, D::SequenceParallel, D::MicroBatch, D::Recompute, D::RecomputeLayers})
    rows.push_back({s(degree), {}, By::Script});
  for (const Setting setting : {S::GlobalBatch, S::SequenceLength, S::Precision, S::Optimizer,
                                S::Attention, S::RankOrder, S::Layers, S::Gpus, S::Model})
    rows.push_back({setting, {}, By::Script});
  // Said by the file as a whole, or refused below.
  for (const Setting setting : {s(D::Pipeline), s(D::Chunks), s(D::Schedule), S::MicroBatches})
    rows.push_back({setting, {}, By::Target});
  for (std::size_t k = 0; k < kOverlapCount; ++k)
    rows.push_back({setting_of(static_cast<Overlap>(k)), {}, By::Script});
  return rows;
}

Launch launch() {
  return {.script = "-m torchtitan.train",
          .arguments =
              "--parallelism.pipeline_parallel_schedule_csv \"$PLAN_CONFIG\" "
              "\"${TRAIN_ARGS[@]}\""};
}

}  // namespace

Exporter pytorch_csv_exporter() {
  return {
      .title = "pipeline order of torch.distributed.pipelining",
      .checked = "pytorch/pytorch@00722e64 (torch 2.15), pytorch/torchtitan@b5bcd76c (2026-08-21)",
      .framework = "",
      .accepts = accepts(),
      .documents = {{.keys = {{"pipeline_order",
                               {s(D::Pipeline), s(D::Chunks), s(D::Schedule), S::MicroBatches},
                               pipeline_order}},
                     .write = write_order,
                     .file = "schedule.csv"}},
      .launch = launch(),
      .conflicts = {{"one pipeline stage, which has no order (pp 1)",
                     [](const ExportRequest& h) { return h.degrees.pipeline == 1; }},
                    {"an order made for the times of its stages (--schedule of another name)",
                     [](const ExportRequest& h) { return h.degrees.pipeline > 1 && !order_of(h); }},
                    {"an order with two copies of the network, or several forward passes",
                     [](const ExportRequest& h) {
                       const auto order = order_of(h);
                       return order && (order->replicas > 1 || order->forwards > 1);
                     }}},
      .notes = [](const ExportRequest& h) -> std::vector<std::string> {
        return {
            fmt::format("for torchtitan: --parallelism.pipeline_parallel_schedule_csv FILE with "
                        "{} micro-batches and {} stages",
                        h.degrees.micro_batches, h.virtual_stages()),
            "the file has no comments: degrees, batch and network are the training script's"};
      },
  };
}

}  // namespace plansearch::exporters
