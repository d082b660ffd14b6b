// SPDX-License-Identifier: Apache-2.0
// Computes:   an order for given times and a given memory: the best of several lists and of all
//             fixed orders of the table that fit. Lists are made for a few micro-batches per stage
//             and repeated.
// Source:     the idea is that of Qi et al. (arXiv 2401.10241, section 3.1; zb.py of
//             sail-sg/zero-bubble-pipeline-parallelism@39f2c186): a heuristic with switches, weight
//             gradients as filler, a memory limit. The switches here are our own.
// Assumes:    equal stages; times and memory cap of the shape.
// Units:      ticks; chunks.
// Checked by: tests/unit/schedule/orders/zb_auto_test.cpp, against brute force
#include <algorithm>
#include <limits>

#include "schedule/orders/list_scheduling.hpp"
#include "schedule/simulation/closed_form.hpp"
#include "schedule/simulation/simulator.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

constexpr int kListedPerStage = 4;     ///< micro-batches that a list is made for
constexpr int kLonger = 3;             ///< times as many where no block is found in those
constexpr int kMostPerStage = 40;      ///< beyond which none is looked for
constexpr int kPeriods = 12;           ///< blocks of 1, 2, 3, 4, 6 and 12 leave no rest
constexpr std::size_t kSimulated = 2;  ///< of the lists that are repeated, the most promising

/// An order for few micro-batches, and the block of it that is run again for the others.
struct RepeatedList {
  ListOrder list;
  std::optional<ListBlock> block;  ///< absent if there are no others
  int left_out = 0;                ///< how many times it is run again

  [[nodiscard]] std::vector<ListPiece> pieces(int times) const {
    return block ? list.repeated(*block, times) : list.pieces;
  }
  /// Were the block to take as long every time.
  [[nodiscard]] Ticks makespan() const {
    return list.makespan + (block ? left_out * block->time : 0);
  }
};

/// A block that the list itself runs twice in a row, of those that leave no rest of so many
/// micro-batches.
std::optional<ListBlock> steady_block(const ListOrder& list, int micro_batches) {
  for (const ListBlock& block : list.blocks) {
    const auto begin = list.pieces.begin() + static_cast<std::ptrdiff_t>(block.begin);
    const auto end = list.pieces.begin() + static_cast<std::ptrdiff_t>(block.end);
    if (micro_batches % block.micro_batches == 0 && list.pieces.end() - end >= end - begin &&
        std::equal(begin, end, end)) {
      return block;
    }
  }
  return std::nullopt;
}

/// The block stays as many times as show its period.
ShapeOrder compiled(const PipelineShape& shape, const RepeatedList& found) {
  int times = 1, period = 0;
  Turns turns;
  if (const auto& block = found.block) {
    period = block->micro_batches;
    // A message waits for at most as many micro-batches as a device may keep.
    const int waits = shape.cap() / period + 1;
    times = std::min(1 + found.left_out, 2 * waits + 3);
    turns.middle = block->begin + static_cast<std::size_t>(times) * (block->end - block->begin) / 2;
  }
  const std::vector<ListPiece> pieces = found.pieces(times);
  const auto places = stage_places(shape);
  turns.devices.reserve(pieces.size());
  for (const ListPiece& piece : pieces) {
    turns.devices.push_back(static_cast<std::uint32_t>(places[piece.stage].device));
  }
  const CompiledOrder order = compile(order_of_pieces(shape, pieces), period, turns);
  return {std::make_shared<const CompiledOrder>(order), 1 + found.left_out - times};
}

struct Score {
  Ticks makespan = 0;
  Ticks span = 0;
  int peak = 0;
  auto operator<=>(const Score&) const = default;
};

/// Remembers the best order it is shown: a list, or a fixed order of the table.
class Contest {
 public:
  Contest(const PipelineShape& shape, const UniformTimes& times)
      : shape_(shape), times_(times), durations_(uniform_durations(shape, times)) {}

  /// Tries lists, after the fixed orders, which limit how long a list may take. Among equal orders
  /// the first list wins.
  void show_lists() {
    if (shape_.micro_batches <= enough() + kPeriods) return show_whole_lists();
    std::vector<RepeatedList> lists;
    each_rule([&](const ListScheduling& rule) {
      if (auto list = repeated_list(rule)) lists.push_back(std::move(*list));
    });
    const auto first = [](const RepeatedList& a, const RepeatedList& b) {
      return a.makespan() < b.makespan();
    };
    std::stable_sort(lists.begin(), lists.end(), first);
    for (std::size_t i = 0; i < std::min(kSimulated, lists.size()); ++i) show(std::move(lists[i]));
  }

  /// All lists, made for all micro-batches.
  void show_whole_lists() {
    each_rule([&](const ListScheduling& rule) {
      if (const auto list = list_for(shape_.micro_batches, rule)) show({*list, {}, 0});
    });
  }

  /// Every fixed order for these places is a candidate.
  void show_fixed() {
    const auto places = mapping_of(shape_).places(shape_.stages, shape_.chunks);
    for (const ScheduleId id : all_schedules()) {
      const Schedule& row = schedule_row(id);
      if (row.tuned || row.placement->replicas != 1) continue;
      PipelineShape fixed = shape_;
      fixed.schedule = id;
      fixed.transfers = TransferMode::Asynchronous;
      if (fault_of(fixed) || row.placement->places(shape_.stages, shape_.chunks) != places) {
        continue;
      }
      show(fixed);
    }
  }

  [[nodiscard]] bool has_winner() const { return best_.has_value(); }
  [[nodiscard]] const std::optional<RepeatedList>& list() const { return list_; }
  [[nodiscard]] const PipelineShape& fixed() const { return fixed_; }

 private:
  [[nodiscard]] int most_chunks() const { return shape_.cap() * shape_.chunks; }

  [[nodiscard]] int enough() const { return kListedPerStage * shape_.stages; }

  template <typename Visit>
  static void each_rule(const Visit& visit) {
    for (const Prefer prefer : {Prefer::Backward, Prefer::Forward}) {
      for (const Filler filler : {Filler::Always, Filler::WhereItFits}) {
        for (const Ahead ahead : {Ahead::Memory, Ahead::RoundTrip}) {
          visit({prefer, filler, ahead});
        }
      }
    }
  }

  /// A list for few micro-batches that can be repeated for all of them; for all, where those are
  /// not many and none is found.
  std::optional<RepeatedList> repeated_list(const ListScheduling& rule) {
    const int all = shape_.micro_batches;
    const int most = std::min(all, kMostPerStage * shape_.stages);
    for (int few = enough() + (all - enough()) % kPeriods; few < most;) {
      auto list = list_for(few, rule);
      if (!list) return std::nullopt;
      if (const auto block = steady_block(*list, all - few)) {
        return RepeatedList{std::move(*list), block, (all - few) / block->micro_batches};
      }
      const auto other = steady_block(*list, 0);
      const int rest = other ? (all - few) % other->micro_batches : 0;
      few = rest > 0 ? few + rest : kLonger * few + (all - kLonger * few) % kPeriods;
    }
    if (most < all) return std::nullopt;
    auto list = list_for(all, rule);
    return list ? std::optional(RepeatedList{std::move(*list), {}, 0}) : std::nullopt;
  }

  /// Nothing for a list that cannot be the best, were the rest without a gap.
  std::optional<ListOrder> list_for(int micro_batches, const ListScheduling& rule) {
    PipelineShape few = shape_;
    few.micro_batches = micro_batches;
    check_pieces(few);
    const Ticks work = shape_.chunks * (times_.forward + times_.backward + times_.weight);
    const Ticks rest = (shape_.micro_batches - micro_batches) * work;
    const Ticks latest = best_ ? best_->makespan - rest : std::numeric_limits<Ticks>::max();
    auto list = list_order(few, times_, rule, latest);
    return list && list->peak <= most_chunks() ? list : std::nullopt;
  }

  void show(RepeatedList found) {
    Score score{found.list.makespan, found.list.span, found.list.peak};
    const bool queues = times_.transfer > std::min(times_.forward, times_.backward);
    if (found.block || queues) {
      const ShapeOrder order = compiled(shape_, found);
      if (order.periods_left_out > 0 && order.compiled->window.length == 0) return;
      orders_.run(*order.compiled, order.periods_left_out, durations_.view(),
                  TransferMode::Asynchronous, SteadyState::Extrapolate, result_);
      score = {result_.makespan, result_.span(), found.list.peak};
    }
    if (best_ && (list_ ? *best_ <= score : *best_ < score)) return;
    best_ = score;
    list_ = std::move(found);
  }

  void show(const PipelineShape& fixed) {
    if (best_ && order_bound(fixed, durations_.view()) > best_->makespan) return;
    int peak = 0;
    for (int d = 0; d < fixed.stages; ++d) peak = std::max(peak, peak_chunks(fixed, d));
    if (peak > most_chunks()) return;
    const PipelineResult& result = simulator_.run(fixed, durations_.view());
    const Score score{result.makespan, result.span(), peak};
    if (best_ && *best_ <= score) return;
    best_ = score;
    fixed_ = fixed;
  }

  const PipelineShape& shape_;
  const UniformTimes& times_;
  PipelineDurations durations_;
  OrderSimulator orders_;
  PipelineSimulator simulator_;
  PipelineResult result_;
  std::optional<Score> best_;
  std::optional<RepeatedList> list_;
  PipelineShape fixed_;
};

Contest contest_of(const PipelineShape& shape, const UniformTimes& times) {
  Contest contest(shape, times);
  contest.show_fixed();
  contest.show_lists();
  if (!contest.has_winner()) contest.show_whole_lists();
  return contest;
}

UniformTimes times_of(const PipelineShape& shape) {
  return shape.tuned.value_or(UniformTimes{1, 1, 0, 1});
}

ComputeOrder separate(ComputeOrder order) {
  // Fixed orders with whole backwards run both gradients in a row.
  return order.weight_gradients == WeightGradients::Separate ? order : split(std::move(order));
}

ComputeOrder zb_auto_order(const PipelineShape& shape) {
  const UniformTimes times = times_of(shape);
  const Contest contest = contest_of(shape, times);
  if (!contest.list()) return separate(order_of(contest.fixed()));
  return order_of_pieces(shape, contest.list()->pieces(1 + contest.list()->left_out));
}

ShapeOrder shortened_zb_auto(const PipelineShape& shape) {
  const UniformTimes times = times_of(shape);
  const Contest contest = contest_of(shape, times);
  if (contest.list()) return compiled(shape, *contest.list());
  PipelineShape fixed = contest.fixed();
  const ShapeOrder order = shape_order(fixed);
  if (splits_backward(fixed.schedule)) return order;
  const int period = order.compiled->period;
  fixed.micro_batches -= order.periods_left_out * period;
  const CompiledOrder shortened = compile(separate(order_of(fixed)), period);
  if (order.periods_left_out > 0 && shortened.window.length == 0) {
    return {std::make_shared<const CompiledOrder>(compile(zb_auto_order(shape), period)), 0};
  }
  return {std::make_shared<const CompiledOrder>(shortened), order.periods_left_out};
}

}  // namespace

Schedule zb_auto_schedule() {
  Schedule row;
  row.name = "zb-auto";
  row.summary = "the best of many orders for the times and the memory at hand";
  row.placement = &snake_mapping();  // one chunk: a loop
  row.other_placement = &looped_mapping();
  row.chunks = {1, 2};
  row.weight_gradients = WeightGradients::Separate;
  row.order = zb_auto_order;
  row.shortened = shortened_zb_auto;
  row.tuned = true;
  return row;
}

}  // namespace plansearch
