// SPDX-License-Identifier: Apache-2.0
// Computes:   bounds and estimates of the makespan of any schedule of the table.
// Source:     head + work + tail and critical path are folklore; Alpa (OSDI'22) eq. 2 for its own.
// Assumes:    as the simulator: in-order compute queues, one send stream per direction.
// Units:      ticks.
// Checked by: tests/unit/schedule/closed_form_test.cpp, against simulation of random pipelines.
#include "schedule/simulation/closed_form.hpp"

#include <algorithm>
#include <vector>

#include "schedule/simulation/pipeline_tasks.hpp"
#include "schedule/simulation/simulator.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// One device of a pipeline, any placement.
struct DeviceBound {
  Ticks head = 0;       ///< until its first input can be there
  Ticks tail = 0;       ///< time after its last gradient has left
  int replicas = 0;     ///< seen so far
  Ticks work = 0;       ///< of one micro-batch, all its virtual stages
  Ticks postponed = 0;  ///< of which may run after its last gradient has left
  Ticks alone = 0;      ///< what forwards take longer that run beside no backward
};

/// The device enters the pipeline at the first virtual stage of one of its replicas and leaves it
/// at such a stage: what follows a gradient of a later one is longer.
/// Admissible for *every* order of the pieces, however clever: the latest of
///   - device r cannot start before its first input, computes all its work and is followed by what
///     its last gradient still has to pass: head_r + work_r + tail_r, for every r; forwards beside
///     no backward are counted where the order says which these are;
///   - one micro-batch passes all stages and all boundaries forward and backward.
/// Weight gradients are inside the backward where the schedule does not split it.
Ticks placed_bound(const PipelineShape& shape, const PipelineTimes& times, WeightGradients split) {
  thread_local std::vector<DeviceBound> devices;
  const PlacedTasks pieces(shape, times);
  const bool separate = split == WeightGradients::Separate;
  devices.assign(pieces.stages(), {});
  const auto passes = static_cast<Ticks>(shape.forwards);
  Ticks head = 0, tail = 0;
  Ticks earlier = 0;      // of one micro-batch, passes before the one that is differentiated
  Ticks last_weight = 0;  // of one micro-batch, longer than the gradients that follow it
  Ticks bound = 0;
  const bool known = joins_after_warm_up(shape.schedule) && !times.overlapped_forward.empty();
  const std::vector<int>* joined = known ? &joined_forwards(shape) : nullptr;
  for (std::size_t k = 0; k < pieces.count(); ++k) {
    if (k % pieces.replica() == 0) head = tail = last_weight = earlier = 0;
    const auto replica = static_cast<int>(k / pieces.replica());
    DeviceBound& device = devices[pieces.device(k)];
    const Ticks weight = separate ? pieces.weight(k) : 0;
    if (device.replicas == replica) {
      const Ticks left = tail + pieces.gradient_stream(k);
      device.head = replica == 0 ? head : std::min(device.head, head);
      device.tail = replica == 0 ? left : std::min(device.tail, left);
      ++device.replicas;
    }
    device.work += passes * pieces.least_forward(k) + pieces.backward(k);
    device.postponed += weight;
    if (joined != nullptr) {
      const Ticks forwards = shape.micro_batches - (*joined)[k];
      device.alone += forwards * (pieces.forward(k) - pieces.least_forward(k));
    }
    earlier += (passes - 1) * (pieces.pass_forward(k) + pieces.return_transfer(k));
    last_weight = std::max(last_weight, weight - tail - pieces.gradient(k));
    head += pieces.pass_forward(k);
    tail += pieces.pass_backward(k) - weight;
    bound = std::max(bound, earlier + head + tail + last_weight);
  }
  const auto replicas = static_cast<Ticks>(pieces.count() / pieces.replica());
  const Ticks jobs = shape.micro_batches / replicas;
  for (const DeviceBound& device : devices) {
    const Ticks after = std::max<Ticks>(0, device.tail - jobs * device.postponed);
    bound = std::max(bound, device.head + jobs * device.work + device.alone + after);
  }
  return bound;
}

}  // namespace

Ticks order_bound(const PipelineShape& shape, const PipelineTimes& times) {
  check_total(shape, times);
  const Schedule& row = schedule_row(shape.schedule);
  return row.bound ? row.bound(shape, times) : placed_bound(shape, times, row.weight_gradients);
}

Ticks span_bound(const PipelineShape& shape, const PipelineTimes& times) {
  check_total(shape, times);
  thread_local std::vector<Ticks> work;
  const PlacedTasks pieces(shape, times);
  work.assign(pieces.stages(), 0);
  const auto passes = static_cast<Ticks>(shape.forwards);
  Ticks path = 0;  // of one micro-batch, from its first forward to its last gradient
  Ticks bound = 0;
  for (std::size_t k = 0; k < pieces.count(); ++k) {
    if (k % pieces.replica() == 0) path = 0;
    path += passes * pieces.pass_forward(k) + (passes - 1) * pieces.return_transfer(k) +
            pieces.pass_backward(k) - pieces.weight(k);
    work[pieces.device(k)] += passes * pieces.least_forward(k) + pieces.backward(k);
    bound = std::max(bound, path);
  }
  const auto replicas = static_cast<Ticks>(pieces.count() / pieces.replica());
  const Ticks jobs = shape.micro_batches / replicas;
  for (const Ticks own : work) bound = std::max(bound, jobs * own);
  return bound;
}

Ticks estimate_makespan(const PipelineShape& shape, const PipelineTimes& times) {
  check_total(shape, times);
  const Schedule& row = schedule_row(shape.schedule);
  if (row.estimate) return row.estimate(shape, times);
  thread_local PipelineSimulator simulator;
  return simulator.run(shape, times).makespan;
}

Ticks flow_shop_makespan(const PipelineShape& shape, const PipelineTimes& times) {
  const LoopedTasks pieces(shape, times);
  FlowShop forward, backward;
  for (std::size_t k = 0; k < pieces.count(); ++k) {
    forward.add(pieces.forward(k));
    forward.add(pieces.activation_stream(k));
    backward.add(pieces.backward(k));
    backward.add(pieces.gradient_stream(k));
  }
  return forward.time(shape.micro_batches) + backward.time(shape.micro_batches);
}

}  // namespace plansearch
