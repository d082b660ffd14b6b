// SPDX-License-Identifier: Apache-2.0
// Durations of the pieces of a pipeline as bounds see them; private to the schedule layer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "schedule/order/stage_places.hpp"
#include "schedule/simulation/pipeline.hpp"

namespace plansearch {

/// Neighbouring virtual stages are always on different devices (a loop), or may share one.
enum class Neighbours : std::uint8_t { Apart, Anywhere };

/// Durations with blocking sends counted where they run: on the compute queue of the sender.
/// Nothing is sent between virtual stages of one device.
template <Neighbours kNeighbours>
class PipelineTasks {
 public:
  PipelineTasks(const PipelineShape& shape, const PipelineTimes& times)
      : times_(times),
        places_(stage_places(shape)),
        stages_(static_cast<std::size_t>(shape.stages)),
        replica_(static_cast<std::size_t>(shape.stages) * static_cast<std::size_t>(shape.chunks)),
        blocking_(shape.transfers == TransferMode::Blocking) {}

  [[nodiscard]] std::size_t stages() const { return stages_; }
  [[nodiscard]] std::size_t count() const { return times_.forward.size(); }
  [[nodiscard]] std::size_t device(std::size_t k) const {
    return static_cast<std::size_t>(places_[k].device);
  }
  [[nodiscard]] Ticks weight(std::size_t k) const {
    return times_.weight_gradient.empty() ? 0 : times_.weight_gradient[k];
  }
  /// Time of a message; boundary k follows virtual stage k. None after the last, before the first.
  [[nodiscard]] Ticks activation(std::size_t k) const {
    return k + 1 < count() && crosses(k) ? times_.activation_transfer[k] : 0;
  }
  [[nodiscard]] Ticks gradient(std::size_t k) const {
    return k > 0 && crosses(k - 1) ? times_.gradient_transfer[k - 1] : 0;
  }
  /// The time of a message from the last virtual stage to the first, for further passes.
  [[nodiscard]] Ticks return_transfer(std::size_t k) const {
    const bool last = (k + 1) % replica_ == 0 && k < times_.activation_transfer.size();
    const bool moves = last && places_[k].device != places_[k + 1 - replica_].device;
    return moves ? times_.activation_transfer[k] : 0;
  }
  /// From the start of a piece until its output is at the next stage.
  [[nodiscard]] Ticks pass_forward(std::size_t k) const {
    return times_.forward[k] + activation(k);
  }
  /// The weight gradient included.
  [[nodiscard]] Ticks pass_backward(std::size_t k) const {
    return times_.backward[k] + weight(k) + gradient(k);
  }
  /// Virtual stages of one replica of the network.
  [[nodiscard]] std::size_t replica() const { return replica_; }
  /// The least time of a forward that may overlap a backward.
  [[nodiscard]] Ticks least_forward(std::size_t k) const {
    const auto& overlapped = times_.overlapped_forward;
    return forward(k) -
           (overlapped.empty() ? 0 : std::max<Ticks>(times_.forward[k] - overlapped[k], 0));
  }
  /// On the compute queue.
  [[nodiscard]] Ticks forward(std::size_t k) const {
    return times_.forward[k] + (blocking_ ? activation(k) : 0);
  }
  [[nodiscard]] Ticks backward(std::size_t k) const {
    return times_.backward[k] + weight(k) + (blocking_ ? gradient(k) : 0);
  }
  /// On the send stream.
  [[nodiscard]] Ticks activation_stream(std::size_t k) const {
    return blocking_ ? 0 : activation(k);
  }
  [[nodiscard]] Ticks gradient_stream(std::size_t k) const { return blocking_ ? 0 : gradient(k); }

 private:
  [[nodiscard]] bool crosses(std::size_t boundary) const {
    if (kNeighbours == Neighbours::Apart) return true;
    return (boundary + 1) % replica_ != 0 &&
           places_[boundary].device != places_[boundary + 1].device;
  }

  PipelineTimes times_;
  std::span<const StagePlace> places_;
  std::size_t stages_;
  std::size_t replica_;
  bool blocking_;
};

using LoopedTasks = PipelineTasks<Neighbours::Apart>;
using PlacedTasks = PipelineTasks<Neighbours::Anywhere>;

/// One micro-batch forward and backward through everything, weight gradients included.
[[nodiscard]] inline Ticks critical_path(const LoopedTasks& pieces) {
  Ticks sum = 0;
  for (std::size_t k = 0; k < pieces.count(); ++k) {
    sum += pieces.pass_forward(k) + pieces.pass_backward(k);
  }
  return sum;
}

/// A row of machines that equal jobs pass: the time of `jobs` jobs is sum + (jobs - 1) * longest.
struct FlowShop {
  Ticks sum = 0;
  Ticks longest = 0;
  void add(Ticks duration) {
    sum += duration;
    longest = std::max(longest, duration);
  }
  [[nodiscard]] Ticks time(Ticks jobs) const { return sum + (jobs - 1) * longest; }
};

}  // namespace plansearch
