// SPDX-License-Identifier: Apache-2.0
// Computes:   bounds and estimates of orders that alternate forward and backward, chunks in a loop.
// Source:     head + work + tail are folklore; Dinkelbach (1967) for the largest mean of a loop.
// Assumes:    as the simulator: in-order compute queues, one send stream per direction.
// Units:      ticks.
// Checked by: tests/unit/schedule/closed_form_test.cpp, against simulation of random pipelines.
#include "schedule/simulation/closed_form.hpp"

#include <algorithm>

#include "schedule/simulation/pipeline_tasks.hpp"

namespace plansearch {
namespace {

struct DeviceWork {
  Ticks forward = 0;  ///< of one micro-batch, all chunks
  Ticks backward = 0;
  Ticks weight = 0;  ///< contained in backward
};

DeviceWork work_of(const LoopedTasks& pieces, std::size_t device) {
  DeviceWork work;
  for (std::size_t k = device; k < pieces.count(); k += pieces.stages()) {
    work.forward += pieces.forward(k);
    work.backward += pieces.backward(k);
    work.weight += pieces.weight(k);
  }
  return work;
}

/// The first `count` forwards of a device in interleaved order: chunk after chunk, `group`
/// micro-batches each; and likewise its first backwards, which take the chunks in reverse order.
struct Prefix {
  Ticks forward = 0;
  Ticks backward = 0;
};

Prefix first_pieces(const LoopedTasks& pieces, std::size_t device, Ticks forwards, Ticks backwards,
                    Ticks group) {
  if (pieces.count() == pieces.stages()) {
    return {forwards * pieces.forward(device), backwards * pieces.backward(device)};
  }
  const auto chunks = static_cast<Ticks>(pieces.count() / pieces.stages());
  const Ticks cycle = group * chunks;
  struct Position {
    Ticks whole;  ///< micro-batches of every chunk in full groups
    Ticks rest;   ///< pieces of the group under way
  };
  const auto position = [&](Ticks count) { return Position{count / cycle * group, count % cycle}; };
  const Position ahead = position(forwards);
  const Position behind = position(backwards);
  const auto runs = [&](const Position& at, Ticks turn) {
    return at.whole + std::clamp<Ticks>(at.rest - turn * group, 0, group);
  };
  Prefix sum;
  Ticks chunk = 0;
  for (std::size_t k = device; k < pieces.count(); k += pieces.stages(), ++chunk) {
    sum.forward += runs(ahead, chunk) * pieces.forward(k);
    sum.backward += runs(behind, chunks - 1 - chunk) * pieces.backward(k);
  }
  return sum;
}

/// The slowest loop of 1F1B: steady time per micro-batch, and the last device on it.
struct Loop {
  double rate = 0.0;
  std::size_t end = 0;
};

/// A loop goes forward over the stages of an interval and back, and passes as many micro-batches as
/// the interval has stages (the number in flight), so its rate is an average; the largest one is
/// found by Dinkelbach's iteration.
Loop slowest_loop(const LoopedTasks& pieces) {
  double rate = 0.0;
  std::size_t end = 0;
  for (std::size_t k = 0; k < pieces.count(); ++k) {
    const Ticks own = std::max({pieces.forward(k) + pieces.backward(k), pieces.activation_stream(k),
                                pieces.gradient_stream(k)});
    if (static_cast<double>(own) > rate) {
      rate = static_cast<double>(own);
      end = k;
    }
  }
  for (int iteration = 0; iteration < 8; ++iteration) {
    double best_gain = 0.0, best_rate = rate;
    std::size_t best_end = end;
    double sum = 0.0;
    double length = 0.0;
    for (std::size_t k = 0; k < pieces.count(); ++k) {
      const auto loop = static_cast<double>(pieces.forward(k) + pieces.backward(k));
      const double boundary =
          k > 0 ? static_cast<double>(pieces.activation_stream(k - 1) + pieces.gradient_stream(k))
                : 0.0;
      if (sum + boundary - length * rate > 0.0) {
        sum += boundary;
      } else {
        sum = length = 0.0;
      }
      sum += loop;
      length += 1.0;
      if (sum - length * rate > best_gain) {
        best_gain = sum - length * rate;
        best_rate = sum / length;
        best_end = k;
      }
    }
    if (best_rate <= rate * (1.0 + 1e-12)) break;
    rate = best_rate;
    end = best_end;
  }
  return {rate, end};
}

enum class Aim : std::uint8_t { Bound, Estimate };

/// 1F1B, interleaved or not, by device: it starts its first backward when the first micro-batch is
/// back (or its forwards ahead are done), then alternates without a gap, and after its last forward
/// the last micro-batch still travels to the end and back.
Ticks alternating_makespan(const PipelineShape& shape, const LoopedTasks& pieces, Aim aim) {
  const Ticks chunks = shape.chunks;
  const Ticks total = Ticks{shape.micro_batches} * chunks;
  const Ticks group = chunks > 1 ? Ticks{shape.group_size()} : Ticks{1};
  const bool even = shape.micro_batches % group == 0;
  const Loop loop = aim == Aim::Estimate && chunks == 1 ? slowest_loop(pieces) : Loop{};
  Ticks all_forward = 0, all_backward = 0;
  for (std::size_t k = 0; k < pieces.count(); ++k) {
    all_forward += pieces.pass_forward(k);
    all_backward += pieces.pass_backward(k);
  }
  // Sums over the virtual stages below the first and the last chunk of the device at hand.
  const std::size_t last_chunk = pieces.count() - pieces.stages();
  Ticks head = 0, tail = 0;
  Ticks forward_to_last = 0, backward_to_last = 0;
  for (std::size_t k = 0; k < last_chunk; ++k) {
    forward_to_last += pieces.pass_forward(k);
    backward_to_last += pieces.pass_backward(k);
  }
  Ticks makespan = 0;
  for (std::size_t device = 0; device < pieces.stages(); ++device) {
    const std::size_t top = last_chunk + device;
    const DeviceWork work = work_of(pieces, device);
    const Ticks warm = alternating_warm_up(shape, static_cast<int>(device));
    const Ticks ahead = std::min(total, warm + 1);
    const Ticks before_last = std::max<Ticks>(total - ahead, 0);
    const Prefix first = even ? first_pieces(pieces, device, ahead, before_last, group) : Prefix{};
    const Ticks all_work = shape.micro_batches * (work.forward + work.backward);
    const Ticks own_tail = tail + pieces.gradient_stream(device);
    const Ticks back = all_forward + (all_backward - backward_to_last - pieces.pass_backward(top));
    const Ticks start = std::max(back, head + first.forward);
    const Ticks plain =
        even ? start + (all_work - first.forward)
             : std::max(start + shape.micro_batches * work.backward, head + all_work);
    makespan = std::max(makespan, plain + own_tail);
    if (even && total > ahead) {
      const Ticks mid = shape.micro_batches * work.forward - first.forward + first.backward;
      const Ticks rest = all_work - first.forward - mid;
      const Ticks journey = (all_forward - forward_to_last - pieces.pass_forward(top)) +
                            pieces.activation_stream(top) + all_backward;
      const Ticks end = std::max(rest + own_tail, journey);
      const double rate = device == loop.end ? loop.rate : 0.0;
      const auto steady = static_cast<Ticks>(rate * static_cast<double>(before_last));
      makespan = std::max(makespan, start + std::max(mid, steady) + end);
    }
    head += pieces.pass_forward(device);
    tail += pieces.pass_backward(device);
    forward_to_last += pieces.pass_forward(top);
    backward_to_last += pieces.pass_backward(top);
  }
  return makespan;
}

}  // namespace

int alternating_warm_up(const PipelineShape& shape, int device) {
  const int behind = shape.stages - 1 - device;
  return shape.chunks > 1 ? 2 * behind + (shape.chunks - 1) * shape.group_size() : behind;
}

Ticks alternating_bound(const PipelineShape& shape, const PipelineTimes& times) {
  const LoopedTasks pieces(shape, times);
  return std::max(critical_path(pieces), alternating_makespan(shape, pieces, Aim::Bound));
}

Ticks alternating_estimate(const PipelineShape& shape, const PipelineTimes& times) {
  const LoopedTasks pieces(shape, times);
  return std::max(critical_path(pieces), alternating_makespan(shape, pieces, Aim::Estimate));
}

}  // namespace plansearch
