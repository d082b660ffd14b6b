// SPDX-License-Identifier: Apache-2.0
// Computes:   makespan and device use of 1F1B and interleaved 1F1B.
// Source:     orders of Alpa (1F1B) and Megatron-LM (interleaved 1F1B).
// Assumes:    in-order compute queues; one send stream per device and direction.
// Units:      ticks.
// Checked by: tests/unit/schedule/simulator_test.cpp, against the task graph of the same order.
#include "schedule/simulation/rounds.hpp"

#include <algorithm>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

std::size_t index(int value) {
  return static_cast<std::size_t>(value);
}

}  // namespace

void RoundSimulator::run(Rounds rounds, const PipelineShape& shape, const PipelineTimes& times,
                         SteadyState steady, PipelineResult& result) {
  result_ = &result;
  load(shape, times);
  const Ticks shift = (this->*rounds)(shape, steady);
  finish(shape, times, shift);
}

void RoundSimulator::load(const PipelineShape& shape, const PipelineTimes& times) {
  const auto count = index(shape.virtual_stages());
  const auto stages = index(shape.stages);
  const bool blocking = shape.transfers == TransferMode::Blocking;
  PLANSEARCH_CHECK(times.forward.size() == count && times.backward.size() == count);
  PLANSEARCH_CHECK(times.activation_transfer.size() + 1 == count);
  PLANSEARCH_CHECK(times.gradient_transfer.size() + 1 == count);
  PLANSEARCH_CHECK(shape.chunks == 1 || shape.group_size() == shape.stages);
  const auto piece = [blocking](Ticks duration, Ticks transfer) {
    return blocking ? Piece{duration + transfer, transfer, 0} : Piece{duration, 0, transfer};
  };
  forward_.resize(count);
  backward_.resize(count);
  for (std::size_t k = 0; k < count; ++k) {
    const Ticks weight = times.weight_gradient.empty() ? 0 : times.weight_gradient[k];
    forward_[k] = piece(times.forward[k], k + 1 < count ? times.activation_transfer[k] : 0);
    backward_[k] = piece(times.backward[k] + weight, k > 0 ? times.gradient_transfer[k - 1] : 0);
  }
  ranks_.assign(stages, Rank{});
  result_->devices.assign(stages, DeviceUse{});
}

/// Waits for the input, then computes (and sends, when sends block).
inline void RoundSimulator::occupy(Rank& rank, const Piece& piece, Ticks arrival, Ticks made) {
  const Ticks wait = std::max<Ticks>(arrival - rank.free, 0);
  rank.exposed += std::min(wait, arrival - made) + piece.blocked;
  rank.free += wait + piece.occupied;
}

inline void RoundSimulator::forward(Rank& rank, const Piece& piece, Ticks arrival, Ticks made) {
  occupy(rank, piece, arrival, made);
  rank.activation_made = rank.free - piece.blocked;
  rank.activation_out = std::max(rank.free, rank.activation_out) + piece.transfer;
}

inline void RoundSimulator::backward(Rank& rank, const Piece& piece, Ticks arrival, Ticks made) {
  occupy(rank, piece, arrival, made);
  rank.gradient_made = rank.free - piece.blocked;
  rank.gradient_out = std::max(rank.free, rank.gradient_out) + piece.transfer;
}

/// Whether the present state is the remembered one, all times later by the same amount.
bool RoundSimulator::state_repeats() const {
  const Ticks later = ranks_[0].free - seen_[0].free;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    const Rank& now = ranks_[r];
    const Rank& then = seen_[r];
    if (now.free - then.free != later || now.activation_out - then.activation_out != later ||
        now.gradient_out - then.gradient_out != later ||
        now.activation_made - then.activation_made != later ||
        now.gradient_made - then.gradient_made != later) {
      return false;
    }
  }
  return true;
}

/// Brent's search for a repetition, asked after every period of the program in its steady phase.
/// True when the state is that of an earlier look; seen_look_ tells which.
bool RoundSimulator::recognise(int look) {
  if (look > 0 && state_repeats()) return true;
  if (look == 0 || look > 2 * seen_look_) {
    seen_ = ranks_;
    seen_look_ = look;
  }
  return false;
}

/// Leaves out what has happened since the recognised state `times` times; the time that takes.
Ticks RoundSimulator::skip(int times) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    ranks_[r].exposed += times * (ranks_[r].exposed - seen_[r].exposed);
  }
  return times * (ranks_[0].free - seen_[0].free);
}

/// Forward of micro-batch k on all devices in turn, and on device r the backward of micro-batch
/// k - (p-1) + r, whose gradient device r+1 has sent in the round before.
inline void RoundSimulator::one_f_one_b_round(int k, int jobs) {
  const int last = static_cast<int>(ranks_.size()) - 1;
  const int first_backward = std::max(0, last - k);
  const int end_backward = std::min(last, jobs - 1 + last - k);
  for (int r = 0; r <= last; ++r) {
    Rank& rank = ranks_[index(r)];
    if (k < jobs) {
      const bool has_input = r > 0;
      const Rank& before = ranks_[index(std::max(r - 1, 0))];
      if (k == 0) result_->devices[index(r)].first_start = has_input ? before.activation_out : 0;
      forward(rank, forward_[index(r)], has_input ? before.activation_out : 0,
              has_input ? before.activation_made : 0);
    }
    if (r >= first_backward && r <= end_backward) {
      const bool has_input = r < last;
      const Rank& after = ranks_[index(std::min(r + 1, last))];
      backward(rank, backward_[index(r)], has_input ? after.gradient_out : 0,
               has_input ? after.gradient_made : 0);
    }
  }
}

Ticks RoundSimulator::one_f_one_b(const PipelineShape& shape, SteadyState steady) {
  const int last = shape.stages - 1;
  int jobs = shape.micro_batches;
  Ticks shift = 0;
  bool searching = steady == SteadyState::Extrapolate;
  for (int k = 0; k < jobs + last; ++k) {
    one_f_one_b_round(k, jobs);
    if (!searching || k < last || k >= jobs - 1) continue;
    if (!recognise(k - last)) continue;
    const int period = k - last - seen_look_;
    const int times = (jobs - 1 - k) / period;
    shift = skip(times);
    jobs -= times * period;
    searching = false;
  }
  result_->micro_batches_simulated = jobs;
  return shift;
}

/// On device r the forward with index k - r and the backward with index k - depth + r; an index
/// counts the (chunk, micro-batch) pairs in Megatron's order, `position` is the index within a
/// cycle of all chunks. Every message is consumed in the round after it was sent, so devices are
/// visited from the last to the first, with the two states kept that would be overwritten.
inline void RoundSimulator::interleaved_round(const Interleaving& plan, int k, int total) {
  const Rank wrapped = ranks_.back();
  Rank after;  // device r+1 before this round
  for (int r = plan.stages - 1; r >= 0; --r) {
    Rank& rank = ranks_[index(r)];
    const Rank before_round = rank;
    if (k >= r && k - r < total) {
      const int position = plan.forward_position - r;
      const int chunk = chunk_of_[index(position < 0 ? position + plan.cycle : position)];
      const bool has_input = r > 0 || chunk > 0;
      const Rank& source = r > 0 ? ranks_[index(r - 1)] : wrapped;
      if (k == r) result_->devices[index(r)].first_start = has_input ? source.activation_out : 0;
      forward(rank, forward_[index(chunk * plan.stages + r)], has_input ? source.activation_out : 0,
              has_input ? source.activation_made : 0);
    }
    const int backward_index = k - plan.depth + r;
    if (backward_index >= 0 && backward_index < total) {
      int position = plan.backward_position + r;
      if (position >= plan.cycle) position -= plan.cycle;
      const int chunk = plan.chunks - 1 - chunk_of_[index(position)];
      const bool has_input = r < plan.stages - 1 || chunk < plan.chunks - 1;
      const Rank& source = r < plan.stages - 1 ? after : ranks_[0];
      backward(rank, backward_[index(chunk * plan.stages + r)], has_input ? source.gradient_out : 0,
               has_input ? source.gradient_made : 0);
    }
    after = before_round;
  }
}

Ticks RoundSimulator::interleaved(const PipelineShape& shape, SteadyState steady) {
  Interleaving plan{shape.stages, shape.chunks};
  plan.cycle = shape.stages * shape.chunks;
  plan.depth = 2 * (shape.stages - 1) + (shape.chunks - 1) * shape.stages;
  plan.backward_position = (plan.cycle - plan.depth % plan.cycle) % plan.cycle;
  chunk_of_.resize(index(plan.cycle));
  for (int i = 0; i < plan.cycle; ++i) chunk_of_[index(i)] = i / shape.stages;

  int total = shape.micro_batches * shape.chunks;
  Ticks shift = 0;
  bool searching = steady == SteadyState::Extrapolate;
  for (int k = 0; k < total + plan.depth; ++k) {
    interleaved_round(plan, k, total);
    if (++plan.forward_position == plan.cycle) plan.forward_position = 0;
    if (++plan.backward_position == plan.cycle) plan.backward_position = 0;
    if (!searching || k < plan.depth || k >= total - 1) continue;
    if ((k - plan.depth) % plan.cycle != 0 || !recognise((k - plan.depth) / plan.cycle)) continue;
    const int period = k - plan.depth - seen_look_ * plan.cycle;
    const int times = (total - 1 - k) / period;
    shift = skip(times);
    total -= times * period;
    searching = false;
  }
  result_->micro_batches_simulated = total / shape.chunks;
  return shift;
}

void RoundSimulator::finish(const PipelineShape& shape, const PipelineTimes& times, Ticks shift) {
  result_->makespan = 0;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Ticks work = 0;
    for (std::size_t k = r; k < times.forward.size(); k += ranks_.size()) {
      work += times.forward[k] + times.backward[k];
      if (!times.weight_gradient.empty()) work += times.weight_gradient[k];
    }
    DeviceUse& use = result_->devices[r];
    use.busy = work * shape.micro_batches;
    use.last_end = ranks_[r].free + shift;
    use.exposed_transfer = ranks_[r].exposed;
    result_->makespan = std::max(result_->makespan, use.last_end);
  }
}

}  // namespace plansearch
