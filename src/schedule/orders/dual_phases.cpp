// SPDX-License-Identifier: Apache-2.0
// Computes:   what one device of DualPipe or DualPipeV runs.
// Source:     deepseek-ai/DualPipe@3da1bbe, step() of dualpipe.py and dualpipev.py: eight phases,
//             named in dual_phases().
// Assumes:    weight gradients left for later run first in, first out.
// Units:      none.
// Checked by: tests/unit/schedule/orders/dualpipe_test.cpp, dualpipe_v_test.cpp
#include "schedule/orders/dual_phases.hpp"

#include <deque>

namespace plansearch {
namespace {

enum class Backward : std::uint8_t { Whole, InputOnly };

class Writer {
 public:
  explicit Writer(const DualDevice& device) : device_(device) {}

  void forward(int way) { add(way, forwards_[index(way)]++, Phase::Forward, false); }
  void backward(int way, Backward kind) { add_backward(way, kind, false); }
  /// The forward of one way and the backward of the other at the same time.
  void overlapped(int way) {
    forward(way);
    add_backward(1 - way, Backward::Whole, true);
  }
  /// The oldest weight gradient that was left for later.
  void weight() {
    const ComputeStep step = later_.front();
    later_.pop_front();
    steps_.push_back(step);
  }
  [[nodiscard]] std::vector<ComputeStep> take() { return std::move(steps_); }

 private:
  static std::size_t index(int way) { return static_cast<std::size_t>(way); }

  void add(int way, int count, Phase phase, bool joined) {
    steps_.push_back(
        {device_.chunks[index(way)], device_.first[index(way)] + count, phase, joined});
  }
  void add_backward(int way, Backward kind, bool joined) {
    const int count = backwards_[index(way)]++;
    add(way, count, Phase::Backward, joined);
    if (kind == Backward::Whole) {
      add(way, count, Phase::WeightGradient, true);
    } else {
      later_.push_back(
          {device_.chunks[index(way)], device_.first[index(way)] + count, Phase::WeightGradient});
    }
  }

  const DualDevice& device_;
  std::vector<ComputeStep> steps_;
  std::deque<ComputeStep> later_;
  std::array<int, 2> forwards_{0, 0};
  std::array<int, 2> backwards_{0, 0};
};

}  // namespace

std::vector<ComputeStep> dual_phases(const DualDevice& device) {
  const int near = device.place + 1;      // devices from the first to this one
  const int far = device.devices - near;  // devices behind it
  const bool meeting = far == 0;
  Writer write(device);
  // 1: forwards of the first way until the second arrives. 2: both in turn.
  for (int i = 0; i < 2 * far; ++i) write.forward(0);
  for (int i = 0; i < near; ++i) {
    write.forward(0);
    write.forward(1);
  }
  // 3: backwards of the second way begin; their weight gradients fill the wait for its forwards.
  for (int i = 0; i < far; ++i) {
    write.backward(1, Backward::InputOnly);
    write.weight();
    write.forward(1);
  }
  // 4: forward and backward overlap, the two directions in turn; where they meet the first pair
  // does not.
  for (int i = 0; i < device.micro_batches - 2 * device.devices + near; ++i) {
    if (i == 0 && meeting) {
      write.forward(0);
      write.backward(1, Backward::Whole);
    } else {
      write.overlapped(0);
    }
    write.overlapped(1);
  }
  // 5: no forwards of the first way are left.
  for (int i = 0; i < far; ++i) {
    write.backward(1, Backward::Whole);
    write.overlapped(1);
  }
  // 6: backwards of both directions; the second half leaves its weight gradients for later.
  for (int i = 0; i < 2 * near; ++i) {
    const auto kind = i >= near ? Backward::InputOnly : Backward::Whole;
    write.backward(i % 2 == 0 ? 1 : 0, kind);
  }
  // 7: weight gradients fill the wait for the last backwards of the first way. 8: the rest.
  for (int i = 0; i < far; ++i) {
    write.weight();
    write.backward(0, Backward::InputOnly);
  }
  for (int i = 0; i < near; ++i) write.weight();
  return write.take();
}

}  // namespace plansearch
