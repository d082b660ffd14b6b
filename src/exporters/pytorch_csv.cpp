// SPDX-License-Identifier: Apache-2.0
// Source: pytorch/pytorch@00722e64 torch/distributed/pipelining/schedules.py: _Action.from_str,
// PipelineScheduleMulti._load_csv (a row a rank, computation alone), _validate_schedule (every
// stage once, every micro-batch on it); pytorch/torchtitan@b5bcd76c
// torchtitan/distributed/pipeline_parallel.py: build_pipeline_schedule
// (pipeline_parallel_schedule_csv).
#include <fmt/format.h>

#include <variant>

#include "exporters/fact.hpp"
#include "io/plan/schedule_csv.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "schedule/table.hpp"

namespace plansearch::exporters {
namespace {

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

/// For an order that the format has.
bool runs_twice(const ExportRequest& h) {
  const auto order = order_of(h);
  return order && (order->replicas > 1 || order->forwards > 1);
}

}  // namespace

/// The format has no comments: the header stays on standard error.
std::string write_order(const std::vector<std::string>& /*header*/, const Entries& entries) {
  return entries.empty() ? std::string() : entries.front().value.get<std::string>();
}

// clang-format off
Facts order_facts() {
  return {
      {"pipeline_order", {s(D::Pipeline), s(D::Chunks), s(D::Schedule), S::MicroBatches}, pipeline_order},
      {"order_for_its_times", {}, [](H h) { return Value(h.degrees.pipeline > 1 && !order_of(h)); }},
      {"order_with_copies", {}, [](H h) { return Value(runs_twice(h)); }},
      {"order_in_torchtitan", {},
       [](H h) {
         return Value(fmt::format("for torchtitan: --parallelism.pipeline_parallel_schedule_csv FILE with "
                                  "{} micro-batches and {} stages", h.degrees.micro_batches, h.virtual_stages()));
       }},
  };
}
// clang-format on

}  // namespace plansearch::exporters
