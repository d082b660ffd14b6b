// SPDX-License-Identifier: Apache-2.0
// Expected values: by hand; every window of small plans, counted out one by one; the schedule that
// microsoft/nnscaler@29405683 cupilot/mllm.4stages.sched.json lists (interlaced embeddings, OSDI
// 2024).
#include "schedule/window/window_search.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "io/plan/blocks_document.hpp"
#include "pipeline_support.hpp"
#include "plansearch/stop_token.hpp"
#include "support/source_directory.hpp"

namespace plansearch::testing::schedule_window_test {
namespace {

constexpr const char* kInterlaced =
    PLANSEARCH_SOURCE_DIR "/validation/reproduce/nnscaler/interlaced.yaml";

/// A forward and a backward on each of `stages` devices, there and back.
BlockPlan there_and_back(int stages, Ticks forward, Ticks backward) {
  std::vector<PlanBlock> blocks;
  std::vector<std::vector<int>> devices;
  std::vector<BeforeRule> rules;
  for (int i = 0; i < 2 * stages; ++i) {
    const bool is_forward = i < stages;
    const int device = is_forward ? i : 2 * stages - 1 - i;
    blocks.push_back({(is_forward ? "f" : "b") + std::to_string(device),
                      is_forward ? forward : backward, is_forward ? 1 : -1});
    devices.push_back({device});
    if (i > 0) rules.push_back({static_cast<NodeId>(i - 1), static_cast<NodeId>(i), 0});
  }
  return make_block_plan("pipeline", stages, blocks, devices, rules);
}

WindowOrder found(const BlockPlan& plan, const WindowRequest& request) {
  auto order = find_window(plan, request);
  REQUIRE(std::holds_alternative<WindowOrder>(order));
  return std::get<WindowOrder>(std::move(order));
}

void obeys(const BlockPlan& plan, const WindowRequest& request, const WindowOrder& order) {
  CHECK(start_faults(plan, order.starts).empty());
  CHECK(order.makespan == makespan_of(plan, order.starts));
  CHECK(order.makespan >= order.makespan_bound);
  CHECK(order.period >= order.period_bound);
  CHECK(order.peaks == peaks_of(plan, order.starts));
  for (std::size_t d = 0; d < order.peaks.size(); ++d) {
    if (request.caps[d]) CHECK(order.peaks[d] <= *request.caps[d]);
  }
}

/// Whether so long a window exists: every start up to a horizon, for every block, as the definition
/// says: micro-batches -4 .. 4 of all blocks side by side.
class EveryWindow {
 public:
  EveryWindow(const BlockPlan& plan, const WindowRequest& request, Ticks period, Ticks horizon)
      : plan_(plan),
        request_(request),
        period_(period),
        horizon_(horizon),
        starts_(plan.blocks.size(), 0) {}

  bool exists(std::size_t block = 0) {
    if (block == starts_.size()) return is_window();
    for (Ticks at = 0; at <= (block == 0 ? 0 : horizon_); ++at) {
      starts_[block] = at;
      if (exists(block + 1)) return true;
    }
    return false;
  }

 private:
  [[nodiscard]] bool is_window() const {
    for (const BeforeRule& rule : plan_.rules) {
      const Ticks end = starts_[rule.first] + plan_.blocks[rule.first].time + rule.delay;
      if (starts_[rule.second] + rule.later * period_ < end) return false;
    }
    // Of so many micro-batches all have begun and ended around the middle.
    const int many = 2 * static_cast<int>(horizon_ / period_ + 3);
    BlockStarts all(starts_.size());
    for (std::size_t b = 0; b < starts_.size(); ++b) {
      for (int m = 0; m < many; ++m) all[b].push_back(starts_[b] + m * period_);
    }
    if (!start_faults(plan_, all).empty()) return false;
    const std::vector<int> peaks = peaks_of(plan_, all);
    for (std::size_t d = 0; d < peaks.size(); ++d) {
      if (request_.caps[d] && peaks[d] > *request_.caps[d]) return false;
    }
    return true;
  }

  const BlockPlan& plan_;
  const WindowRequest& request_;
  Ticks period_;
  Ticks horizon_;
  std::vector<Ticks> starts_;
};

/// A tree of blocks on random devices. A block may take memory that a later one of its branch gives
/// back on the same devices. Messages between blocks take up to so long.
BlockPlan random_plan(Dice& dice, int most_delay = 0) {
  const int devices = dice.between(1, 2);
  const auto count = static_cast<std::size_t>(dice.between(3, 4));
  std::vector<PlanBlock> blocks;
  std::vector<std::vector<int>> places;
  std::vector<BeforeRule> rules;
  std::vector<std::size_t> parent(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    blocks.push_back({"x" + std::to_string(i), dice.between(1, 2), 0});
    const bool gang = devices > 1 && dice.between(0, 3) == 0;
    places.push_back(gang ? std::vector<int>{0, 1}
                          : std::vector<int>{dice.between(0, devices - 1)});
    if (i == 0) continue;
    parent[i] = static_cast<std::size_t>(dice.between(0, static_cast<int>(i) - 1));
    rules.push_back({static_cast<NodeId>(parent[i]), static_cast<NodeId>(i), 0,
                     most_delay > 0 ? dice.between(0, most_delay) : 0});
  }
  for (std::size_t last = count; last-- > 1;) {
    std::optional<std::size_t> first;
    for (std::size_t at = last; at != 0;) {
      at = parent[at];
      if (places[at] == places[last] && blocks[at].memory == 0) first = at;
    }
    if (!first || blocks[last].memory != 0) continue;
    blocks[*first].memory = 1;
    blocks[last].memory = -1;
  }
  return make_block_plan("random", devices, blocks, places, rules);
}

struct Tally {
  int longer = 0;  ///< than the work of the busiest device
  int none = 0;
};

/// The shortest windows of small plans are those of all windows.
Tally check_small_plans(Dice& dice, int plans, int most_delay) {
  Tally tally;
  for (int n = 0; n < plans; ++n) {
    const BlockPlan plan = random_plan(dice, most_delay);
    WindowRequest request{3, {}};
    for (std::size_t d = 0; d < plan.devices(); ++d) {
      request.caps.push_back(dice.between(0, 1) == 0 ? std::optional<int>() : dice.between(1, 2));
    }
    const Ticks horizon = most_delay > 0 ? 22 : 12;
    const auto answer = find_window(plan, request);
    if (std::holds_alternative<NoWindow>(answer)) {
      Ticks all = 0;
      for (const PlanBlock& block : plan.blocks) all += block.time;
      CHECK_FALSE(EveryWindow(plan, request, all, horizon).exists());
      ++tally.none;
      continue;
    }
    const WindowOrder& order = std::get<WindowOrder>(answer);
    obeys(plan, request, order);
    CHECK(order.period == order.period_bound);
    const auto work = work_of_devices(plan);
    const Ticks least = *std::max_element(work.begin(), work.end());
    if (order.period > least) ++tally.longer;
    for (Ticks period = least; period < order.period; ++period) {
      CHECK_FALSE(EveryWindow(plan, request, period, horizon).exists());
    }
    CHECK(EveryWindow(plan, request, order.period, horizon).exists());
  }
  return tally;
}

TEST_SUITE("schedule") {
  // One device: work 3 per micro-batch, nothing idle, and one micro-batch kept.
  TEST_CASE("a window of one device is its work") {
    const BlockPlan plan = there_and_back(1, 1, 2);
    const WindowRequest request{4, {1}};
    const WindowOrder order = found(plan, request);
    CHECK(order.period == 3);
    CHECK(order.makespan == 12);
    obeys(plan, request, order);
  }

  // Three stages of F 1, B 2 with room for as many micro-batches as 1F1B keeps: work 3, and 1F1B's
  // (M + S - 1) (F + B) for 6 micro-batches.
  TEST_CASE("a pipeline of blocks: as good as 1F1B within its memory") {
    const BlockPlan plan = there_and_back(3, 1, 2);
    const WindowRequest request{6, {3, 2, 1}};
    const WindowOrder order = found(plan, request);
    CHECK(order.period == 3);
    CHECK(order.period_bound == 3);
    CHECK(order.makespan <= (6 + 3 - 1) * 3);
    obeys(plan, request, order);
  }

  // With room for one micro-batch each stage waits until it comes back: stage 0 for all 3 F and 3
  // B.
  TEST_CASE("little memory makes a long window, and the search proves it") {
    const BlockPlan plan = there_and_back(3, 1, 2);
    const WindowRequest request{4, {1, 1, 1}};
    const WindowOrder order = found(plan, request);
    CHECK(order.period == 9);
    CHECK(order.period_bound == 9);
    CHECK(order.makespan == 36);
    obeys(plan, request, order);
  }

  TEST_CASE("no order where one block takes more than there is") {
    const auto none = find_window(there_and_back(2, 1, 1), {2, {0, 1}});
    REQUIRE(std::holds_alternative<NoWindow>(none));
    CHECK(std::get<NoWindow>(none).reason == "f0 takes 1 on device 0, which may keep 0");
  }

  TEST_CASE("2,000 small plans: the shortest window is that of all windows") {
    Dice dice(41);
    const Tally tally = check_small_plans(dice, 2000, 0);
    CHECK(tally.longer > 15);
    CHECK(tally.none < 200);
  }

  TEST_CASE("500 small plans whose messages take time") {
    Dice dice(43);
    const Tally tally = check_small_plans(dice, 500, 2);
    CHECK(tally.longer > 15);
    CHECK(tally.none < 100);
  }

  // Two devices, F 1 and B 1 each, a tick between them: a micro-batch takes 1 + 1 + 1 + 1 + 1 + 1,
  // and where one is kept at a time that is the window.
  TEST_CASE("a message between blocks holds back what waits for it") {
    BlockPlan plan = there_and_back(2, 1, 1);
    for (BeforeRule& rule : plan.rules) rule.delay = rule.first == 1 ? 0 : 1;
    const WindowRequest one{3, {1, 1}};
    const WindowOrder order = found(plan, one);
    CHECK(order.period == 6);
    CHECK(order.makespan == 18);
    obeys(plan, one, order);
    BlockStarts early = order.starts;
    --early[1].front();
    CHECK(start_faults(plan, early) == std::vector<std::string>{"f1 of micro-batch 0 begins before "
                                                                "f0 of micro-batch 0 ends"});
    const WindowRequest free{3, {std::nullopt, std::nullopt}};
    const WindowOrder many = found(plan, free);
    CHECK(many.period == 2);
    CHECK(many.makespan == 6 + 2 * 2);
    obeys(plan, free, many);
  }

  TEST_CASE("interlaced embeddings: as short as the published schedule, in less memory") {
    const io::BlocksDocument published = io::read_blocks(kInterlaced);
    const BlockPlan& plan = published.plan;
    REQUIRE(published.starts);
    CHECK(makespan_of(plan, *published.starts) == 60);
    CHECK(peaks_of(plan, *published.starts) == std::vector{6, 5, 4, 3});
    CHECK(work_of_devices(plan) == std::vector<Ticks>{8, 8, 8, 8});
    const WindowRequest request{6, {6, 5, 4, 3}};
    const WindowOrder order = found(plan, request);
    CHECK(order.period == 8);
    CHECK(order.makespan <= 60);
    obeys(plan, request, order);
  }

  TEST_CASE("rules between micro-batches hold, and contradictions are found") {
    BlockPlan plan = there_and_back(2, 1, 1);
    // f0 of micro-batch m + 1 waits for b0 of micro-batch m.
    const NodeId f0 = 0, b0 = 3;
    plan.rules.push_back({b0, f0, 1});
    CHECK(contradiction(plan).empty());
    const WindowRequest request{3, {std::nullopt, std::nullopt}};
    const WindowOrder order = found(plan, request);
    CHECK(order.period == 4);
    CHECK(order.makespan == 12);
    obeys(plan, request, order);
    // b0 of m before f0 of the same m, which it needs: f0, f1, b1, b0 and back in four rules, where
    // b0 of m before f1 of m is one shorter.
    plan.rules.back().later = 0;
    CHECK(contradiction(plan).size() == 4);
    plan.rules.push_back({b0, 1, 0});
    CHECK(contradiction(plan).size() == 3);
  }

  // One device: F0 F1 B0 F2 B1 F3 B2 B3, two micro-batches kept.
  TEST_CASE("a rule may hold a block back for the next micro-batch") {
    BlockPlan plan = there_and_back(1, 1, 1);
    plan.rules.push_back({0, 1, -1});
    const WindowRequest request{4, {std::nullopt}};
    const WindowOrder order = found(plan, request);
    CHECK(order.period == 2);
    CHECK(order.starts == BlockStarts{{0, 1, 3, 5}, {2, 4, 6, 7}});
    CHECK(order.peaks == std::vector{2});
    obeys(plan, request, order);
  }

  TEST_CASE("a time limit ends the search with the best so far") {
    const io::BlocksDocument published = io::read_blocks(kInterlaced);
    const StopToken token({.time = std::chrono::duration<double>(0.0)});
    const StopScope scope(&token);
    const auto order = find_window(published.plan, {6, {6, 5, 4, 3}});
    if (const auto* best = std::get_if<WindowOrder>(&order)) {
      CHECK(best->stopped);
    } else {
      CHECK(std::get<NoWindow>(order).remedy == "a longer --time-limit");
    }
  }
}

}  // namespace
}  // namespace plansearch::testing::schedule_window_test
