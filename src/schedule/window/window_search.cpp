// SPDX-License-Identifier: Apache-2.0
// Computes:   a repeating window of blocks, as short as possible, and the schedule it unrolls to.
// Source:     depth-first modulo scheduling: lengths from the busiest device's work upwards, blocks
//             in the order of their needs (Rau 1994; Tessel, HPCA 2024, for the problem).
// Assumes:    as window_table.cpp; devices run their blocks in the sequence of the window.
// Units:      ticks.
// Checked by: tests/unit/schedule/window_test.cpp, against every window of small plans
#include "schedule/window/window_search.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"
#include "schedule/window/window_table.hpp"

namespace plansearch {
namespace {

enum class Outcome : std::uint8_t { Found, None, Unknown };

/// Windows of one length.
class LengthSearch {
 public:
  LengthSearch(const BlockPlan& plan, const WindowRequest& request, Ticks period,
               Ticks makespan_bound, WindowOrder& best)
      : plan_(plan),
        request_(request),
        table_(plan, request.caps, period),
        makespan_bound_(makespan_bound),
        best_(best) {}

  Outcome run() {
    descend();
    if (found_) return Outcome::Found;
    return left_ > 0 && table_.exhaustive() && !best_.stopped ? Outcome::None : Outcome::Unknown;
  }

 private:
  /// The best of this length is as good as any.
  [[nodiscard]] bool is_over() const {
    if (found_ && best_.makespan <= makespan_bound_) return true;
    return left_ <= 0 || best_.stopped;
  }

  void descend() {
    if (table_.complete()) {
      keep();
      return;
    }
    for (const Ticks start : table_.choices()) {
      if (is_over()) return;
      --left_;
      ++best_.choices;
      if (poll_.is_late()) best_.stopped = true;
      if (table_.place(start)) descend();
      table_.remove_last();
    }
  }

  void keep() {
    // To lay it out takes as long as some choices.
    constexpr std::int64_t kRunsOfAChoice = 32;
    left_ -=
        static_cast<std::int64_t>(plan_.blocks.size()) * request_.micro_batches / kRunsOfAChoice;
    BlockStarts starts = unrolled(plan_, table_.starts(), table_.period(), request_.micro_batches);
    const Ticks makespan = makespan_of(plan_, starts);
    if (found_ && makespan > best_.makespan) return;
    std::vector<int> peaks = peaks_of(plan_, starts);
    const auto sum = [](const std::vector<int>& of) {
      return std::accumulate(of.begin(), of.end(), 0);
    };
    if (found_ &&
        std::tuple(makespan, sum(peaks)) >= std::tuple(best_.makespan, sum(best_.peaks))) {
      return;
    }
    found_ = true;
    best_.period = table_.period();
    best_.window = table_.starts();
    best_.starts = std::move(starts);
    best_.makespan = makespan;
    best_.peaks = std::move(peaks);
  }

  const BlockPlan& plan_;
  const WindowRequest& request_;
  WindowTable table_;
  Ticks makespan_bound_;
  WindowOrder& best_;
  std::int64_t left_ = request_.most_choices;
  bool found_ = false;
  StopPoll poll_;
};

/// One block already takes more: no order helps.
std::optional<NoWindow> too_small(const BlockPlan& plan, const WindowRequest& request) {
  for (NodeId id = 0; id < plan.blocks.size(); ++id) {
    const PlanBlock& block = plan.blocks[id];
    for (const int device : plan.nodes.node(id).devices) {
      const auto& cap = request.caps[static_cast<std::size_t>(device)];
      if (!cap || block.memory <= *cap) continue;
      return NoWindow{block.name + " takes " + std::to_string(block.memory) + " on device " +
                          std::to_string(device) + ", which may keep " + std::to_string(*cap),
                      "--memory-cap of at least " + std::to_string(block.memory) + " there"};
    }
  }
  return std::nullopt;
}

}  // namespace

BlockStarts unrolled(const BlockPlan& plan, const std::vector<Ticks>& window, Ticks period,
                     int micro_batches) {
  std::vector<std::size_t> rank(plan.blocks.size());
  const std::vector<NodeId> order = dependence_order(plan);
  for (std::size_t i = 0; i < order.size(); ++i) rank[order[i]] = i;
  std::vector<std::tuple<Ticks, int, std::size_t>> sequence;
  for (NodeId id = 0; id < plan.blocks.size(); ++id) {
    for (int m = 0; m < micro_batches; ++m) {
      sequence.emplace_back(window[id] + m * period, m, rank[id]);
    }
  }
  std::sort(sequence.begin(), sequence.end());
  std::vector<std::vector<BeforeRule>> into(plan.blocks.size());
  for (const BeforeRule& rule : plan.rules) into[rule.second].push_back(rule);
  std::vector<Ticks> free(plan.devices(), 0);
  BlockStarts starts(plan.blocks.size(),
                     std::vector<Ticks>(static_cast<std::size_t>(micro_batches), 0));
  for (const auto& [nominal, m, place] : sequence) {
    const NodeId node = order[place];
    Ticks start = 0;
    for (const BeforeRule& rule : into[node]) {
      const int other = m - rule.later;
      if (other < 0 || other >= micro_batches) continue;
      start = std::max(start, starts[rule.first][static_cast<std::size_t>(other)] +
                                  plan.blocks[rule.first].time + rule.delay);
    }
    for (const int d : plan.nodes.node(node).devices) {
      start = std::max(start, free[static_cast<std::size_t>(d)]);
    }
    starts[node][static_cast<std::size_t>(m)] = start;
    for (const int d : plan.nodes.node(node).devices) {
      free[static_cast<std::size_t>(d)] = start + plan.blocks[node].time;
    }
  }
  return starts;
}

std::variant<WindowOrder, NoWindow> find_window(const BlockPlan& plan,
                                                const WindowRequest& request) {
  PLANSEARCH_CHECK(request.caps.size() == plan.devices());
  if (auto no = too_small(plan, request)) return *std::move(no);
  const std::vector<Ticks> work = work_of_devices(plan);
  const Ticks least = *std::max_element(work.begin(), work.end());
  Ticks longest = 0;  // one micro-batch after the other
  for (const PlanBlock& block : plan.blocks) longest += block.time;
  for (const BeforeRule& rule : plan.rules) longest += rule.delay;
  // Few lengths between the two where ticks are short.
  constexpr Ticks kMostLengths = 1000;
  const Ticks step = std::max<Ticks>(1, (longest - least) / kMostLengths);
  WindowOrder best;
  best.period_bound = least;
  best.makespan_bound = least_makespan(plan, request.micro_batches);
  bool proved = true;
  Ticks next = least;
  for (Ticks period = least;; period = next) {
    period = std::min(period, std::max(least, longest));
    const Outcome outcome = LengthSearch(plan, request, period, best.makespan_bound, best).run();
    if (outcome == Outcome::Found) return best;
    next =
        period + std::max(step, static_cast<Ticks>(static_cast<double>(period) * request.growth));
    proved = proved && outcome == Outcome::None;
    if (proved) best.period_bound = period + 1;
    proved = proved && next == period + 1;
    if (period >= longest || best.stopped) break;
  }
  if (best.stopped) {
    return NoWindow{"no window was found in the time there was", "a longer --time-limit"};
  }
  return NoWindow{"no window was found, not even one micro-batch after the other",
                  "a larger --memory-cap"};
}

}  // namespace plansearch
