// SPDX-License-Identifier: Apache-2.0
// Computes:   the compute orders of DualPipe and DualPipeV.
// Source:     DeepSeek-V3 (arXiv 2412.19437), figure 5; deepseek-ai/DualPipe@3da1bbe, step() of
//             dualpipe.py and dualpipev.py: eight phases, named in dual_phases();
//             ScheduleDualPipeV of torch.distributed.pipelining: DualPipe cut in half, the directions are
//             the legs of a V.
// Assumes:    overlapped pieces as long as the times say; weight gradients left for later run first
//             in, first out; of DualPipe p even, both directions equal.
// Units:      none.
// Checked by: tests/unit/schedule/orders/dualpipe_test.cpp, dualpipe_v_test.cpp
#include <array>
#include <deque>

#include "schedule/table.hpp"

namespace plansearch {
namespace {

/// One device of a pipeline that is passed in two directions which meet on its last device: DualPipe's
/// two halves, and both legs of DualPipeV's V.
struct DualDevice {
  int devices = 1;                  ///< of the pipeline
  int place = 0;                    ///< of this one; the directions meet on the last
  int micro_batches = 1;            ///< per direction
  std::array<int, 2> chunks{0, 1};  ///< from the first device on, and back
  std::array<int, 2> first{0, 0};   ///< micro-batch of each direction
};

enum class Backward : std::uint8_t { Whole, InputOnly };

class Writer {
 public:
  explicit Writer(const DualDevice& device) : device_(device) {}

  void forward(int direction) {
    add(direction, forwards_[index(direction)]++, Phase::Forward, false);
  }
  void backward(int direction, Backward kind) { add_backward(direction, kind, false); }
  /// The forward of one direction and the backward of the other at the same time.
  void overlapped(int direction) {
    forward(direction);
    add_backward(1 - direction, Backward::Whole, true);
  }
  /// The oldest weight gradient that was left for later.
  void weight() {
    const ComputeStep step = later_.front();
    later_.pop_front();
    steps_.push_back(step);
  }
  [[nodiscard]] std::vector<ComputeStep> take() { return std::move(steps_); }

 private:
  static std::size_t index(int direction) { return static_cast<std::size_t>(direction); }

  void add(int direction, int count, Phase phase, bool joined) {
    steps_.push_back(
        {device_.chunks[index(direction)], device_.first[index(direction)] + count, phase, joined});
  }
  void add_backward(int direction, Backward kind, bool joined) {
    const int count = backwards_[index(direction)]++;
    add(direction, count, Phase::Backward, joined);
    if (kind == Backward::Whole) {
      add(direction, count, Phase::WeightGradient, true);
    } else {
      later_.push_back({device_.chunks[index(direction)], device_.first[index(direction)] + count,
                        Phase::WeightGradient});
    }
  }

  const DualDevice& device_;
  std::vector<ComputeStep> steps_;
  std::deque<ComputeStep> later_;
  std::array<int, 2> forwards_{0, 0};
  std::array<int, 2> backwards_{0, 0};
};

/// Forwards and whole backwards of the two directions overlap; at both ends backwards leave their weight
/// gradients for later.
std::vector<ComputeStep> dual_phases(const DualDevice& device) {
  const int near = device.place + 1;      // devices from the first to this one
  const int far = device.devices - near;  // devices behind it
  const bool meeting = far == 0;
  Writer write(device);
  // 1: forwards of the first direction until the second arrives. 2: both in turn.
  for (int i = 0; i < 2 * far; ++i) write.forward(0);
  for (int i = 0; i < near; ++i) {
    write.forward(0);
    write.forward(1);
  }
  // 3: backwards of the second direction begin; their weight gradients fill the wait for its forwards.
  for (int i = 0; i < far; ++i) {
    write.backward(1, Backward::InputOnly);
    write.weight();
    write.forward(1);
  }
  // 4: forward and backward overlap, the two directions in turn; where they meet the first pair does not.
  for (int i = 0; i < device.micro_batches - 2 * device.devices + near; ++i) {
    if (i == 0 && meeting) {
      write.forward(0);
      write.backward(1, Backward::Whole);
    } else {
      write.overlapped(0);
    }
    write.overlapped(1);
  }
  // 5: no forwards of the first direction are left.
  for (int i = 0; i < far; ++i) {
    write.backward(1, Backward::Whole);
    write.overlapped(1);
  }
  // 6: backwards of both directions; the second half of them leaves its weight gradients for later.
  for (int i = 0; i < 2 * near; ++i) {
    const auto kind = i >= near ? Backward::InputOnly : Backward::Whole;
    write.backward(i % 2 == 0 ? 1 : 0, kind);
  }
  // 7: weight gradients fill the wait for the last backwards of the first direction. 8: the rest.
  for (int i = 0; i < far; ++i) {
    write.weight();
    write.backward(0, Backward::InputOnly);
  }
  for (int i = 0; i < near; ++i) write.weight();
  return write.take();
}

/// The two halves of the pipeline mirror each other: the replica that enters at the nearer end
/// comes first.
ComputeOrder dualpipe_order(const PipelineShape& shape) {
  const int half = shape.stages / 2;
  const int each = shape.micro_batches / 2;
  return order_by_device(shape, [&](int device) {
    if (device < half) return dual_phases({half, device, each, {0, 1}, {0, each}});
    return dual_phases({half, shape.stages - 1 - device, each, {1, 0}, {each, 0}});
  });
}

std::optional<ShapeFault> odd_or_too_few(const PipelineShape& shape) {
  if (shape.stages % 2 != 0) return ShapeFault{ShapeField::Stages, shape.stages, {2, 2}};
  if (shape.micro_batches % 2 == 0 && shape.micro_batches >= 2 * shape.stages) return std::nullopt;
  return ShapeFault{ShapeField::MicroBatches, shape.micro_batches, {2 * shape.stages, 2}};
}

}  // namespace

Schedule dualpipe_schedule() {
  Schedule row;
  row.name = "dualpipe";
  row.summary = "two replicas in opposite directions, forward over backward: weights twice";
  row.needs = "p even, m even and at least 2 p";
  row.placement = &bidirectional_mapping();
  row.fewest_stages = 2;
  row.weight_gradients = WeightGradients::Separate;
  row.joins = true;
  row.order = dualpipe_order;
  row.fault = odd_or_too_few;
  row.repetition = [](const PipelineShape& shape) { return Repetition{2, 2 * shape.stages}; };
  return row;
}

Schedule dualpipe_v_schedule() {
  Schedule row;
  row.name = "dualpipe-v";
  row.aliases = {"dualpipev"};
  row.summary = "two chunks in a V, forward over backward: dualpipe on half the devices";
  row.needs = "m at least 2 p";
  row.placement = &snake_mapping();
  row.fewest_stages = 2;
  row.chunks = {2, 2};
  row.weight_gradients = WeightGradients::Separate;
  row.joins = true;
  row.order = [](const PipelineShape& shape) {
    return order_by_device(shape, [&](int device) {
      return dual_phases({shape.stages, device, shape.micro_batches});
    });
  };
  row.fault = [](const PipelineShape& shape) {
    return too_few_micro_batches(shape, 2 * shape.stages);
  };
  row.repetition = [](const PipelineShape& shape) { return Repetition{1, 2 * shape.stages}; };
  return row;
}

}  // namespace plansearch
