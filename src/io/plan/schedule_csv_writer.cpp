// SPDX-License-Identifier: Apache-2.0
// Orders as files of torch.distributed.pipelining. Where its runtime puts sends and receives:
// pytorch/pytorch@00722e64 torch/distributed/pipelining/schedules.py, _add_send_recv (a round over
// the ranks, one action each; the sender appends the receive to the row of the other rank).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>
#include <tuple>

#include "io/plan/schedule_csv.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {
namespace {

using Piece = std::span<const ComputeStep>;
using Rows = std::vector<std::vector<std::string>>;

std::string text_of(const Rows& rows) {
  std::string text;
  for (const auto& row : rows) text += fmt::format("{}\n", fmt::join(row, ","));
  return text;
}

/// The cell of a piece.
std::string cell_of(const ComputeOrder& order, std::size_t device, Piece piece) {
  const bool split = order.weight_gradients == WeightGradients::Separate;
  std::vector<std::string> words;
  for (std::size_t k = 0; k < piece.size(); ++k) {
    const std::size_t stage = order.virtual_stage(static_cast<int>(device), piece[k].chunk);
    const bool whole = split && k + 1 < piece.size() && piece[k].phase == Phase::Backward;
    char letter = 'F';
    if (piece[k].phase == Phase::Backward) letter = split && !whole ? 'I' : 'B';
    if (piece[k].phase == Phase::WeightGradient) letter = 'W';
    words.push_back(fmt::format("{}{}{}", stage, letter, piece[k].micro_batch));
    if (whole) ++k;  // its weight gradient
  }
  if (words.size() == 1) return words.front();
  return fmt::format("({};{}){}", words[0], words[1], kOverlapWord);
}

class Lowered {
 public:
  explicit Lowered(const ComputeOrder& order)
      : order_(order), next_(order.devices.size(), 0), rows_(order.devices.size()) {}

  std::string text() {
    std::size_t left = 0;
    for (const auto& steps : order_.devices) left += steps.size();
    while (left > 0) {
      std::size_t done = 0;
      for (std::size_t d = 0; d < next_.size(); ++d) done += advance(d);
      PLANSEARCH_CHECK(done > 0);  // else the order waits for itself
      left -= done;
    }
    return text_of(rows_);
  }

 private:
  /// The stage and micro-batch whose input is there.
  using Input = std::tuple<std::size_t, int, Phase>;

  /// Appends the next piece of a device where its inputs are there. Returns how many steps it has.
  std::size_t advance(std::size_t device) {
    const std::span<const ComputeStep> steps = order_.devices[device];
    const std::size_t begin = next_[device];
    if (begin == steps.size()) return 0;
    const Piece piece = steps.subspan(begin, piece_end(steps, begin) - begin);
    for (const ComputeStep& step : piece) {
      const auto stage = order_.virtual_stage(static_cast<int>(device), step.chunk);
      const bool waits = step.phase != Phase::WeightGradient && source(stage, step.phase);
      if (waits && !inputs_.contains({stage, step.micro_batch, step.phase})) return 0;
    }
    rows_[device].push_back(cell_of(order_, device, piece));
    for (const ComputeStep& step : piece) hand_on(device, step);
    next_[device] += piece.size();
    return piece.size();
  }

  [[nodiscard]] std::optional<std::size_t> source(std::size_t stage, Phase phase) const {
    return order_.neighbour(stage, phase == Phase::Forward ? -1 : 1);
  }

  void hand_on(std::size_t device, const ComputeStep& step) {
    if (step.phase == Phase::WeightGradient) return;
    const bool forward = step.phase == Phase::Forward;
    const auto stage = order_.virtual_stage(static_cast<int>(device), step.chunk);
    const auto next = order_.neighbour(stage, forward ? 1 : -1);
    if (!next) return;
    inputs_.insert({*next, step.micro_batch, step.phase});
    const auto other = static_cast<std::size_t>(order_.pipeline[*next].device);
    if (other == device) return;
    const char letter = forward ? 'F' : 'B';
    rows_[device].push_back(fmt::format("{}SEND_{}{}", stage, letter, step.micro_batch));
    rows_[other].push_back(fmt::format("{}RECV_{}{}", *next, letter, step.micro_batch));
  }

  const ComputeOrder& order_;
  std::vector<std::size_t> next_;  ///< by device: the step it has come to
  Rows rows_;
  std::set<Input> inputs_;
};

}  // namespace

std::string to_schedule_csv(const ComputeOrder& order) {
  Rows rows(order.devices.size());
  for (std::size_t d = 0; d < order.devices.size(); ++d) {
    const std::span<const ComputeStep> steps = order.devices[d];
    for (std::size_t i = 0; i < steps.size();) {
      const std::size_t end = piece_end(steps, i);
      rows[d].push_back(cell_of(order, d, steps.subspan(i, end - i)));
      i = end;
    }
  }
  return text_of(rows);
}

std::string to_lowered_csv(const ComputeOrder& order) {
  return Lowered(order).text();
}

}  // namespace plansearch::io
