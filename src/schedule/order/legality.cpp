// SPDX-License-Identifier: Apache-2.0
// Computes:   whether a schedule can run in a shape, and what it could run in.
// Source:     the rows of the table.
// Assumes:    nothing.
// Units:      none.
// Checked by: tests/unit/schedule/pipeline_test.cpp, orders_test.cpp
#include <algorithm>
#include <array>
#include <string_view>

#include "schedule/order/order_check.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

std::string legal_text(const LegalValues& legal) {
  if (legal.to == legal.from) return legal.from == 0 ? "no" : std::to_string(legal.from);
  if (legal.to && legal.step == 1) {
    return std::to_string(legal.from) + " to " + std::to_string(*legal.to);
  }
  if (legal.step == 1) return "at least " + std::to_string(legal.from);
  const std::string multiple = "a multiple of " + std::to_string(legal.step);
  return legal.from == legal.step ? multiple : multiple + " from " + std::to_string(legal.from);
}

/// A cycle of waits in words, for forwards and backwards that alternate as the order demands.
std::string why_not_again(const PipelineShape& shape, const ShapeFault& fault) {
  constexpr int kMostForwards = 8;
  constexpr int kMostStages = 64;
  if (fault.field != ShapeField::Forwards || fault.given < 1) return {};
  PipelineShape once = shape;
  once.forwards = 1;
  once.micro_batches = std::min(shape.micro_batches, 2 * shape.stages);  // enough to be stuck
  if (shape.stages > kMostStages || fault_of(once)) return {};
  const auto stuck =
      check_order(with_forwards_in_a_row(order_of(once), std::min(fault.given, kMostForwards)));
  return stuck ? "; with its passes in turn " + stuck->detail : std::string();
}

}  // namespace

std::optional<ShapeFault> fault_of(const PipelineShape& shape) {
  const Schedule& row = schedule_row(shape.schedule);
  if (shape.stages < row.fewest_stages) {
    return ShapeFault{ShapeField::Stages, shape.stages, {row.fewest_stages}};
  }
  if (!row.chunks.contains(shape.chunks)) {
    return ShapeFault{ShapeField::Chunks, shape.chunks, {row.chunks.fewest, 1, row.chunks.most}};
  }
  if (row.given != nullptr) {
    const auto devices = static_cast<int>(row.given->devices.size());
    if (shape.stages != devices) {
      return ShapeFault{ShapeField::Stages, shape.stages, {devices, 1, devices}};
    }
    const int all = row.given->micro_batches;
    if (shape.micro_batches != all) {
      return ShapeFault{ShapeField::MicroBatches, shape.micro_batches, {all, 1, all}};
    }
  }
  if (shape.micro_batches < 1) return ShapeFault{ShapeField::MicroBatches, shape.micro_batches, {}};
  if (shape.group && row.groups == Groups::None) {
    return ShapeFault{ShapeField::Group, *shape.group, {0, 1, 0}};
  }
  if (shape.forwards != 1 && !row.several_forwards) {
    return ShapeFault{ShapeField::Forwards, shape.forwards, {1, 1, 1}};
  }
  if (shape.forwards < 1) return ShapeFault{ShapeField::Forwards, shape.forwards, {}};
  return row.fault ? row.fault(shape) : std::nullopt;
}

Obstacle obstacle_kind(const ShapeFault& fault) {
  const bool batches = fault.field == ShapeField::MicroBatches ||
                       (fault.field == ShapeField::Group && fault.legal.to != 0);
  return batches ? Obstacle::ScheduleNeedsMicroBatches : Obstacle::NoSuchFeature;
}

std::string to_text(ScheduleId schedule, const ShapeFault& fault) {
  struct Field {
    std::string_view one, several;
  };
  static constexpr std::array<Field, 5> kFields{
      {{"pipeline stage", "pipeline stages"},
       {"chunk per stage", "chunks per stage"},
       {"micro-batch", "micro-batches"},
       {"micro-batch in a group", "micro-batches in a group"},
       {"forward pass of a micro-batch", "forward passes of a micro-batch"}}};
  const Field& field = kFields.at(static_cast<std::size_t>(fault.field));
  const LegalValues& legal = fault.legal;
  const bool one = legal.from == 1 && (legal.to == 1 || (!legal.to && legal.step == 1));
  return std::string(to_text(schedule)) + " takes " + legal_text(legal) + " " +
         std::string(one ? field.one : field.several) + ", not " + std::to_string(fault.given);
}

std::optional<Infeasible> obstacle_of(const PipelineShape& shape) {
  const auto fault = fault_of(shape);
  if (!fault) return std::nullopt;
  return Infeasible{obstacle_kind(*fault), static_cast<double>(fault->legal.from),
                    static_cast<double>(fault->given),
                    to_text(shape.schedule, *fault) + why_not_again(shape, *fault)};
}

}  // namespace plansearch
