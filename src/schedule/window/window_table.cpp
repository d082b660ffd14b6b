// SPDX-License-Identifier: Apache-2.0
// Computes:   which starts of a block fit a window, and whether the blocks left can still fit it.
// Source:     modulo reservation tables (Rau 1994); Lin et al., Tessel (HPCA 2024) for windows of
//             micro-batches.
// Assumes:    a micro-batch begins every period; a device runs one block at a time.
// Units:      ticks; units of memory of the file.
// Checked by: tests/unit/schedule/window_test.cpp
#include "schedule/window/window_table.hpp"

#include <algorithm>
#include <utility>

namespace plansearch {
namespace {

/// Windows of more ticks than this have only starts next to other blocks tried.
constexpr Ticks kMostSlots = 64;

Ticks floor_div(Ticks a, Ticks b) {
  const Ticks quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

}  // namespace

WindowTable::WindowTable(const BlockPlan& plan, std::vector<std::optional<int>> caps, Ticks period)
    : plan_(plan),
      caps_(std::move(caps)),
      period_(period),
      order_(dependence_order(plan)),
      into_(plan.blocks.size()),
      out_(plan.blocks.size()),
      nodes_on_(plan.devices()),
      longest_left_(plan.devices()),
      rank_(plan.blocks.size()),
      starts_(plan.blocks.size(), 0),
      busy_(plan.devices()) {
  for (const BeforeRule& rule : plan.rules) {
    into_[rule.second].push_back(rule);
    out_[rule.first].push_back(rule);
  }
  for (std::size_t i = 0; i < order_.size(); ++i) {
    rank_[order_[i]] = i;
    for (const int d : plan.nodes.node(order_[i]).devices) {
      nodes_on_[static_cast<std::size_t>(d)].push_back(order_[i]);
    }
  }
  for (std::size_t d = 0; d < nodes_on_.size(); ++d) {
    auto& left = longest_left_[d];
    left.assign(order_.size() + 1, 0);
    for (std::size_t i = order_.size(); i > 0; --i) {
      const auto& devices = plan.nodes.node(order_[i - 1]).devices;
      const bool here =
          std::find(devices.begin(), devices.end(), static_cast<int>(d)) != devices.end();
      left[i - 1] = std::max(left[i], here ? plan.blocks[order_[i - 1]].time : 0);
    }
  }
  estimate_rest();
}

bool WindowTable::exhaustive() const {
  // A block behind several others may wait a whole period for one of them, which frees memory of
  // another: such starts are not tried.
  if (period_ > kMostSlots) return false;
  return std::all_of(into_.begin(), into_.end(),
                     [](const auto& rules) { return rules.size() <= 1; });
}

/// The earliest start of everything that is not placed.
void WindowTable::estimate_rest() {
  for (std::size_t i = placed_; i < order_.size(); ++i) {
    Ticks earliest = 0;
    for (const BeforeRule& rule : into_[order_[i]]) {
      if (rank_[rule.first] >= i) continue;
      earliest = std::max(earliest, starts_[rule.first] + plan_.blocks[rule.first].time +
                                        rule.delay - rule.later * period_);
    }
    starts_[order_[i]] = earliest;
  }
}

bool WindowTable::is_free(NodeId node, Ticks start) const {
  const Ticks from = slot_of(start);
  const Ticks length = plan_.blocks[node].time;
  for (const int d : plan_.nodes.node(node).devices) {
    for (const Busy& busy : busy_[static_cast<std::size_t>(d)]) {
      const Ticks behind = slot_of(from - busy.from + period_);
      if (behind < busy.length || behind + length > period_) return false;
    }
  }
  // Rules that lead back to blocks placed before it.
  return std::all_of(out_[node].begin(), out_[node].end(), [&](const BeforeRule& rule) {
    if (rank_[rule.second] >= placed_) return true;
    return start + length + rule.delay <= starts_[rule.second] + rule.later * period_;
  });
}

std::vector<Ticks> WindowTable::choices() const {
  const NodeId node = order_[placed_];
  const Ticks earliest = starts_[node];
  std::vector<Ticks> tried;
  if (placed_ == 0) {
    tried = {earliest};  // the window begins where this block does
  } else if (period_ <= kMostSlots) {
    for (Ticks at = 0; at < period_; ++at) tried.push_back(earliest + at);
  } else {
    tried = {earliest};
    for (const int d : plan_.nodes.node(node).devices) {
      for (const Busy& busy : busy_[static_cast<std::size_t>(d)]) {
        const Ticks behind = busy.from + busy.length - slot_of(earliest) + period_;
        tried.push_back(earliest + slot_of(behind));
      }
    }
    std::sort(tried.begin(), tried.end());
    tried.erase(std::unique(tried.begin(), tried.end()), tried.end());
  }
  std::erase_if(tried, [&](Ticks start) { return !is_free(node, start); });
  return tried;
}

bool WindowTable::room_for_rest(std::size_t device) const {
  const Ticks needed = longest_left_[device][placed_];
  const auto& busy = busy_[device];
  if (needed == 0 || busy.empty()) return true;
  for (std::size_t i = 0; i < busy.size(); ++i) {
    const bool last = i + 1 == busy.size();
    const Ticks next = last ? busy.front().from + period_ : busy[i + 1].from;
    if (next - busy[i].from - busy[i].length >= needed) return true;
  }
  return false;
}

/// Whether the least memory of the placed blocks fits. Blocks free memory at the earliest moment at
/// which a block that could do so runs.
bool WindowTable::fits_memory(std::size_t device) {
  const auto& cap = caps_[device];
  if (!cap) return true;
  std::vector<std::pair<Ticks, int>> frees;
  int taken = 0;
  for (const NodeId node : nodes_on_[device]) {
    const int memory = plan_.blocks[node].memory;
    if (memory < 0) frees.emplace_back(starts_[node] + plan_.blocks[node].time, -memory);
    if (memory > 0 && rank_[node] < placed_) taken += memory;
  }
  std::sort(frees.begin(), frees.end());
  for (const NodeId at : nodes_on_[device]) {
    if (plan_.blocks[at].memory <= 0 || rank_[at] >= placed_) continue;
    // Far enough on that every block has begun.
    const Ticks now = starts_[at] + 2 * period_ * static_cast<Ticks>(order_.size() + 1);
    Ticks kept = 0;
    for (const NodeId node : nodes_on_[device]) {
      const int memory = plan_.blocks[node].memory;
      if (memory <= 0 || rank_[node] >= placed_) continue;
      kept += memory * (floor_div(now - starts_[node], period_) + 1);
    }
    Ticks left = taken;
    for (const auto& [end, amount] : frees) {
      const Ticks part = std::min<Ticks>(amount, left);
      kept -= part * (floor_div(now - end, period_) + 1);
      left -= part;
    }
    if (kept > *cap) return false;
  }
  return true;
}

bool WindowTable::place(Ticks start) {
  const NodeId node = order_[placed_];
  starts_[node] = start;
  ++placed_;
  for (const int d : plan_.nodes.node(node).devices) {
    auto& busy = busy_[static_cast<std::size_t>(d)];
    const Busy here{slot_of(start), plan_.blocks[node].time};
    busy.insert(std::upper_bound(busy.begin(), busy.end(), here), here);
  }
  estimate_rest();
  bool good = true;
  for (std::size_t d = 0; d < busy_.size() && good; ++d) {
    good = room_for_rest(d) && fits_memory(d);
  }
  return good;
}

void WindowTable::remove_last() {
  const NodeId node = order_[--placed_];
  for (const int d : plan_.nodes.node(node).devices) {
    auto& busy = busy_[static_cast<std::size_t>(d)];
    const Ticks from = slot_of(starts_[node]);
    busy.erase(
        std::find_if(busy.begin(), busy.end(), [&](const Busy& b) { return b.from == from; }));
  }
  estimate_rest();
}

}  // namespace plansearch
