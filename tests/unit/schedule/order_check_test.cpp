// SPDX-License-Identifier: Apache-2.0
// Verdicts are compared with an independent simulator that passes tokens: a device may run the next
// action of its row once all tokens it takes are there. It knows files, not our orders.
#include "schedule/order/order_check.hpp"

#include <doctest/doctest.h>

#include <array>
#include <map>
#include <set>
#include <sstream>

#include "io/plan/schedule_csv.hpp"
#include "orders/golden.hpp"
#include "pipeline_support.hpp"
#include "plansearch/error.hpp"
#include "schedule/program/timeline.hpp"
#include "schedule/table.hpp"
#include "support/rounds.hpp"

namespace plansearch::testing::order_check_test {
namespace {

enum class Verdict { Runs, Incomplete, Deadlock };

/// Actions as (stage, letter, micro-batch); the pieces of one cell run together.
using Action = std::tuple<int, char, int>;
using Piece = std::vector<Action>;

class Tokens {
 public:
  Tokens(std::vector<std::vector<Piece>> rows, int stages, int replicas, int micro_batches)
      : rows_(std::move(rows)), stages_(stages / replicas), replicas_(replicas) {
    for (const auto& row : rows_) {
      for (const Piece& piece : row) {
        for (const Action& action : piece) ++count_[action];
      }
    }
    const bool split = std::any_of(count_.begin(), count_.end(), [](const auto& entry) {
      return std::get<1>(entry.first) == 'W';
    });
    for (int s = 0; s < stages; ++s) {
      const int share = micro_batches / replicas;
      for (int i = s / stages_ * share; i < (s / stages_ + 1) * share; ++i) {
        for (const char letter : std::string(split ? "FIW" : "FI")) wanted_.insert({s, letter, i});
      }
    }
  }

  Verdict run() {
    for (const Action& action : wanted_) {
      if (count_[action] != 1) return Verdict::Incomplete;
    }
    if (count_.size() != wanted_.size()) return Verdict::Incomplete;
    std::vector<std::size_t> next(rows_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < rows_.size(); ++r) {
        while (next[r] < rows_[r].size() && can_run(rows_[r][next[r]])) {
          for (const Action& action : rows_[r][next[r]]) tokens_.insert(action);
          ++next[r];
          moved = true;
        }
      }
    }
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (next[r] < rows_[r].size()) return Verdict::Deadlock;
    }
    return Verdict::Runs;
  }

  [[nodiscard]] std::vector<Action> taken_by(const Action& action) const {
    const auto [s, letter, i] = action;
    if (letter == 'W') return {{s, 'I', i}};
    std::vector<Action> taken;
    if (letter == 'F' && s % stages_ > 0) taken.push_back({s - 1, 'F', i});
    if (letter == 'I' && s % stages_ + 1 < stages_) taken.push_back({s + 1, 'I', i});
    if (letter == 'I') taken.push_back({s, 'F', i});
    return taken;
  }

 private:
  bool can_run(const Piece& piece) const {
    std::set<Action> there;
    for (const Action& action : piece) {
      for (const Action& taken : taken_by(action)) {
        if (!tokens_.contains(taken) && !there.contains(taken)) return false;
      }
      there.insert(action);
    }
    return true;
  }

  std::vector<std::vector<Piece>> rows_;
  int stages_;
  int replicas_;
  std::map<Action, int> count_;
  std::set<Action> wanted_;
  std::set<Action> tokens_;
};

Action action_of(const ComputeOrder& order, int device, const ComputeStep& step) {
  return {static_cast<int>(order.virtual_stage(device, step.chunk)),
          "FIW"[static_cast<std::size_t>(step.phase)], step.micro_batch};
}

std::vector<std::vector<Piece>> rows_of(const ComputeOrder& order) {
  std::vector<std::vector<Piece>> rows;
  for (std::size_t d = 0; d < order.devices.size(); ++d) {
    auto& row = rows.emplace_back();
    for (const ComputeStep& step : order.devices[d]) {
      if (!step.joined || row.empty()) row.emplace_back();
      row.back().push_back(action_of(order, static_cast<int>(d), step));
    }
  }
  return rows;
}

/// Position of an action's piece in its row.
std::size_t place_of(const std::vector<std::vector<Piece>>& rows, int device,
                     const Action& action) {
  const auto& row = rows[static_cast<std::size_t>(device)];
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (std::find(row[i].begin(), row[i].end(), action) != row[i].end()) return i;
  }
  FAIL("a cycle names an action that is not in the row");
  return 0;
}

void confirm(const ComputeOrder& order, const Tokens& tokens, const OrderFault& fault) {
  const auto rows = rows_of(order);
  REQUIRE(fault.cycle.size() >= 2);
  for (std::size_t i = 0; i < fault.cycle.size(); ++i) {
    const WaitingStep& from = fault.cycle[i];
    const WaitingStep& to = fault.cycle[(i + 1) % fault.cycle.size()];
    const Action waits = action_of(order, from.device, from.step);
    const Action first = action_of(order, to.device, to.step);
    if (from.because == WhyWaits::Input) {
      const auto taken = tokens.taken_by(waits);
      REQUIRE(std::find(taken.begin(), taken.end(), first) != taken.end());
    } else {
      REQUIRE(from.device == to.device);
      REQUIRE(place_of(rows, to.device, first) <= place_of(rows, from.device, waits));
    }
  }
}

/// Fewest waits that lead from an action back to it, over all actions: from a step to what it
/// takes, or to any step that its row runs before or together with it; not twice in a row along a
/// row.
std::size_t fewest_waits(const ComputeOrder& order, const Tokens& tokens) {
  std::vector<Action> actions;
  std::map<Action, std::size_t> index;
  std::vector<std::pair<std::size_t, std::size_t>> place;  // row, piece
  const auto rows = rows_of(order);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (std::size_t p = 0; p < rows[r].size(); ++p) {
      for (const Action& action : rows[r][p]) {
        index[action] = actions.size();
        actions.push_back(action);
        place.emplace_back(r, p);
      }
    }
  }
  std::size_t best = actions.size() + 1;
  for (std::size_t start = 0; start < actions.size(); ++start) {
    // Steps from the start, by action and whether the last one led along a row.
    std::vector<std::array<std::size_t, 2>> far(actions.size(), {0, 0});
    std::vector<std::pair<std::size_t, bool>> queue{{start, true}};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const auto [at, along] = queue[i];
      const std::size_t steps = (i == 0 ? 0 : far[at][along ? 1 : 0]) + 1;
      const auto reach = [&](std::size_t next, bool by_row) {
        if (next == start) best = std::min(best, steps);
        if (next == start || far[next][by_row ? 1 : 0] != 0) return;
        far[next][by_row ? 1 : 0] = steps;
        queue.emplace_back(next, by_row);
      };
      for (const Action& taken : tokens.taken_by(actions[at])) {
        const std::size_t next = index.at(taken);
        if (place[next] != place[at] || next > at) reach(next, false);
      }
      if (along) continue;
      for (std::size_t next = 0; next < actions.size(); ++next) {
        const bool before = place[next].first == place[at].first && place[next] <= place[at];
        if (before && next != at) reach(next, true);
      }
    }
  }
  return best;
}

/// Swaps or takes out pieces of a row.
void spoil(Dice& dice, ComputeOrder& order) {
  auto& steps = order.devices[static_cast<std::size_t>(
      dice.between(0, static_cast<int>(order.devices.size()) - 1))];
  std::vector<std::vector<ComputeStep>> pieces;
  for (const ComputeStep& step : steps) {
    if (!step.joined) pieces.emplace_back();
    pieces.back().push_back(step);
  }
  const auto any = [&] {
    return static_cast<std::size_t>(dice.between(0, static_cast<int>(pieces.size()) - 1));
  };
  if (dice.between(0, 9) == 0) {
    pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(any()));
  } else {
    std::swap(pieces[any()], pieces[any()]);
  }
  steps.clear();
  for (const auto& piece : pieces) steps.insert(steps.end(), piece.begin(), piece.end());
}

Verdict verdict_of(const std::optional<OrderFault>& fault) {
  if (!fault) return Verdict::Runs;
  return fault->kind == OrderFaultKind::Deadlock ? Verdict::Deadlock : Verdict::Incomplete;
}

TEST_SUITE("schedule") {
  TEST_CASE("every schedule passes the checker and the tokens") {
    for (const ScheduleId id : all_schedules()) {
      PipelineShape shape{id, 4, 16, schedule_row(id).chunks.fewest};
      if (fault_of(shape)) shape.stages = 1;
      const auto order = std::get<ComputeOrder>(make_order(shape));
      INFO(to_text(id));
      CHECK_FALSE(check_order(order));
      Tokens tokens(rows_of(order), shape.virtual_stages(), order.replicas, 16);
      CHECK(tokens.run() == Verdict::Runs);
    }
  }

  TEST_CASE("1,000 spoiled orders: the verdict of the tokens, and every edge of the cycle") {
    Dice dice(201);
    std::map<Verdict, int> seen;
    for (int n = 0; n < test::rounds(1000); ++n) {
      const auto& all = all_schedules();
      PipelineShape shape;
      do {
        shape.schedule =
            all[static_cast<std::size_t>(dice.between(0, static_cast<int>(all.size()) - 1))];
        shape.stages = dice.between(2, 4);
        shape.chunks = schedule_row(shape.schedule).chunks.fewest;
        shape.micro_batches = dice.between(1, 8);
      } while (fault_of(shape));
      auto order = std::get<ComputeOrder>(make_order(shape));
      for (int i = dice.between(1, 3); i > 0; --i) spoil(dice, order);
      INFO(describe(shape));
      Tokens tokens(rows_of(order), shape.virtual_stages(), order.replicas, shape.micro_batches);
      const Verdict expected = tokens.run();
      const auto fault = check_order(order);
      REQUIRE(verdict_of(fault) == expected);
      ++seen[expected];
      if (expected == Verdict::Deadlock) {
        confirm(order, tokens, *fault);
        if (seen[expected] <= 60) CHECK(fault->cycle.size() == fewest_waits(order, tokens));
      }
      // The same through a file, unless a row or a stage is gone altogether.
      const std::string text = io::to_schedule_csv(order);
      if (expected == Verdict::Runs) CHECK_NOTHROW(io::parse_schedule(text, "spoiled.csv"));
      if (expected != Verdict::Runs) {
        CHECK_THROWS_AS(io::parse_schedule(text, "spoiled.csv"), InputError);
      }
    }
    CHECK(seen[Verdict::Runs] > test::rounds(50));
    CHECK(seen[Verdict::Incomplete] > test::rounds(50));
    CHECK(seen[Verdict::Deadlock] > test::rounds(50));
  }

  // Device 0 runs B0 before F1; device 1 wants F1 before it makes the gradient.
  TEST_CASE("a cycle is told step by step") {
    auto order = std::get<ComputeOrder>(make_order(shape_of("1f1b", 2, 2)));
    using enum Phase;
    order.devices[0] = {{0, 0, Forward}, {0, 0, Backward}, {0, 1, Forward}, {0, 1, Backward}};
    order.devices[1] = {{0, 0, Forward}, {0, 1, Forward}, {0, 0, Backward}, {0, 1, Backward}};
    const auto fault = check_order(order);
    REQUIRE(fault);
    CHECK(fault->detail ==
          "the order waits for itself: device 0: B0 of stage 0 needs B0 of stage 1, "
          "device 1: B0 of stage 1 is behind F1 of stage 1, "
          "device 1: F1 of stage 1 needs F1 of stage 0, "
          "device 0: F1 of stage 0 is behind B0 of stage 0");
  }

  // GPipe of 2 devices: F0 F1 F2 on device 0 from 0 on, on device 1 from 1 on.
  TEST_CASE("an order that does not fit is told when and where") {
    const PipelineShape shape = shape_of("gpipe", 2, 3);
    const auto order = std::get<ComputeOrder>(make_order(shape));
    const auto times = uniform_durations(shape, {1, 2});
    const auto timeline = std::get<Timeline>(simulate_order(order, times.view()));
    CHECK_FALSE(check_memory(order, timeline, 3));
    CHECK(check_memory(order, timeline, 2) == MemoryFault{0, 2, {0, 2, Phase::Forward}, 3});
  }
}

}  // namespace
}  // namespace plansearch::testing::order_check_test
