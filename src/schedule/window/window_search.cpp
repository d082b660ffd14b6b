// SPDX-License-Identifier: Apache-2.0
// Computes:   a repeating window of blocks, as short as possible, and the schedule it unrolls to.
// Source:     depth-first modulo scheduling: lengths from the busiest device's work upwards, blocks
//             in the order of their needs (Rau 1994; Tessel, HPCA 2024, for the problem).
// Assumes:    as window_table.cpp; devices run their blocks in the sequence of the window.
// Units:      ticks.
// Checked by: tests/unit/schedule/window_test.cpp, against every window of small plans
#include "schedule/window/window_search.hpp"

#include <algorithm>
#include <cmath>
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

/// Ticks of work that the busiest device has in a coarse window: windows of up to 64 ticks are
/// searched at every start.
constexpr double kTicksOfWork = 48.0;
/// Starts that are tried for one length, by passes of a micro-batch: each takes as long as it has
/// passes.
constexpr std::int64_t kMostChoices = 2'400'000;
constexpr double kGrowth = 1.0 / 16.0;

/// The plan with times in few ticks; a time above zero takes at least one.
BlockPlan rounded(BlockPlan plan) {
  const std::vector<Ticks> work = work_of_devices(plan);
  const double tick =
      static_cast<double>(*std::max_element(work.begin(), work.end())) / kTicksOfWork;
  if (tick <= 1.0) return plan;
  for (PlanBlock& block : plan.blocks) {
    block.time = std::max<Ticks>(
        static_cast<Ticks>(std::llround(static_cast<double>(block.time) / tick)), 1);
  }
  for (BeforeRule& rule : plan.rules) {
    rule.delay = static_cast<Ticks>(std::ceil(static_cast<double>(rule.delay) / tick));
  }
  return plan;
}

bool same_question(const BlockPlan& a, const BlockPlan& b) {
  if (a.blocks != b.blocks || a.rules != b.rules || a.nodes.size() != b.nodes.size()) return false;
  for (NodeId id = 0; id < a.nodes.size(); ++id) {
    if (!(a.nodes.node(id) == b.nodes.node(id))) return false;
  }
  return true;
}

}  // namespace

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

WindowOrder coarse_window(const BlockPlan& exact, int micro_batches) {
  BlockPlan plan = rounded(exact);
  struct Known {
    std::optional<BlockPlan> plan;
    int micro_batches = 0;
    WindowOrder order;
  };
  thread_local Known last;
  if (last.plan && last.micro_batches == micro_batches && same_question(*last.plan, plan)) {
    return last.order;
  }
  const std::vector<std::optional<int>> no_caps(plan.devices());
  const auto passes = static_cast<std::int64_t>(plan.blocks.size());
  const auto found = find_window(plan, {micro_batches, no_caps, kMostChoices / passes, kGrowth});
  check_stop();  // a window that was cut short is none to remember
  if (const auto* none = std::get_if<NoWindow>(&found)) {
    throw SimulationLimit("no order of the plan: " + none->reason, none->remedy);
  }
  last = {std::move(plan), micro_batches, std::get<WindowOrder>(found)};
  return last.order;
}

}  // namespace plansearch
