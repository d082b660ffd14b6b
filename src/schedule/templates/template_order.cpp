// SPDX-License-Identifier: Apache-2.0
// Computes:   a shortest cycle of waits of an order that cannot run.
// Source:     definitions; breadth-first search from every step that waits for an input.
// Assumes:    devices run their lists in order; a piece starts when all its steps have their
//             inputs.
// Units:      none.
// Checked by: tests/unit/schedule/order_check_test.cpp, against a token simulator and a search of
//             all cycles
#include "schedule/templates/template_order.hpp"

#include <algorithm>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

using Task = std::uint32_t;  ///< node and micro-batch
constexpr std::uint32_t kNone = ~std::uint32_t{0};

/// Where a task stands in the list of a device.
struct Place {
  std::uint32_t device = 0;
  std::uint32_t position = 0;
};

class Lists {
 public:
  Lists(const TaskTemplate& plan, int micro_batches, const TemplateLists& lists)
      : plan_(plan),
        micro_batches_(static_cast<std::uint32_t>(micro_batches)),
        lists_(lists),
        next_(lists.size(), 0),
        done_(plan.size() * micro_batches_, false),
        first_place_(plan.size() * micro_batches_ + 1, 0) {
    for (const auto& list : lists) {
      for (const TemplateStep& step : list) ++first_place_[task_of(step) + 1];
    }
    for (std::size_t i = 1; i < first_place_.size(); ++i) first_place_[i] += first_place_[i - 1];
    places_.resize(first_place_.back());
    std::vector<std::uint32_t> next(first_place_.begin(), first_place_.end() - 1);
    for (std::uint32_t d = 0; d < lists.size(); ++d) {
      for (std::uint32_t i = 0; i < lists[d].size(); ++i) {
        places_[next[task_of(lists[d][i])]++] = {d, i};
      }
    }
  }

  /// As far as all devices come.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t d = 0; d < lists_.size(); ++d) {
        while (next_[d] < lists_[d].size() && can_start(d)) {
          finish(d);
          moved = true;
        }
      }
    }
    for (std::size_t d = 0; d < lists_.size(); ++d) {
      if (next_[d] < lists_[d].size()) return false;
    }
    return true;
  }

  [[nodiscard]] std::size_t tasks() const { return done_.size(); }
  [[nodiscard]] bool done(Task task) const { return done_[task]; }
  [[nodiscard]] std::size_t devices() const { return lists_.size(); }
  /// The first step that a device has not run.
  [[nodiscard]] std::uint32_t head(std::size_t device) const { return next_[device]; }
  [[nodiscard]] std::uint32_t length(std::size_t device) const {
    return static_cast<std::uint32_t>(lists_[device].size());
  }
  [[nodiscard]] Task task_at(std::size_t device, std::size_t position) const {
    return task_of(lists_[device][position]);
  }
  [[nodiscard]] std::span<const Place> places(Task task) const {
    return std::span(places_).subspan(first_place_[task],
                                      first_place_[task + 1] - first_place_[task]);
  }
  /// Behind the piece that a step belongs to.
  [[nodiscard]] std::uint32_t end_of_piece(const Place& place) const {
    const auto& list = lists_[place.device];
    std::uint32_t end = place.position + 1;
    while (end < list.size() && list[end].joined) ++end;
    return end;
  }
  [[nodiscard]] std::span<const NodeId> inputs(Task task) const {
    return plan_.inputs(task / micro_batches_);
  }
  [[nodiscard]] Task task(NodeId node, Task like) const {
    return node * micro_batches_ + like % micro_batches_;
  }
  [[nodiscard]] TemplateStep step_of(Task task) const {
    return {task / micro_batches_, static_cast<int>(task % micro_batches_)};
  }
  /// Whether an input is made earlier in the piece that reads it.
  [[nodiscard]] bool made_within(Task input, Task reader) const {
    const Place& x = places(input).front();
    const Place& y = places(reader).front();
    return x.device == y.device && x.position < y.position && end_of_piece(x) == end_of_piece(y);
  }

 private:
  [[nodiscard]] Task task_of(const TemplateStep& step) const {
    return step.node * micro_batches_ + static_cast<std::uint32_t>(step.micro_batch);
  }

  /// The next piece of a device: inputs are there, or made within the piece; those of a node on
  /// several devices are next on all of them.
  [[nodiscard]] bool can_start(std::uint32_t device) const {
    const std::uint32_t begin = next_[device];
    const std::uint32_t end = end_of_piece({device, begin});
    for (std::uint32_t i = begin; i < end; ++i) {
      const Task own = task_at(device, i);
      for (const Place& place : places(own)) {
        if (place.device != device && next_[place.device] != place.position) return false;
      }
      for (const NodeId input : inputs(own)) {
        const Task needed = task(input, own);
        if (done_[needed]) continue;
        const Place& there = places(needed).front();
        if (there.device != device || there.position < begin || there.position >= i) return false;
      }
    }
    return true;
  }

  void finish(std::uint32_t device) {
    const std::uint32_t end = end_of_piece({device, next_[device]});
    for (std::uint32_t i = next_[device]; i < end; ++i) {
      done_[task_at(device, i)] = true;
      for (const Place& place : places(task_at(device, i))) {
        if (place.device != device) next_[place.device] = place.position + 1;
      }
    }
    next_[device] = end;
  }

  const TaskTemplate& plan_;
  std::uint32_t micro_batches_;
  const TemplateLists& lists_;
  std::vector<std::uint32_t> next_;  ///< by device
  std::vector<bool> done_;           ///< by task
  std::vector<std::uint32_t> first_place_;
  std::vector<Place> places_;
};

/// Waits between tasks that have not run: for an input, or for an earlier step of the same device.
/// Two of the latter in a row are one, so that a cycle alternates or needs inputs only. A state is
/// a task and how it was reached.
class ShortestCycle {
 public:
  explicit ShortestCycle(const Lists& lists) : lists_(lists) {
    for (auto& reached : reached_by_) reached.assign(lists.tasks(), kNone);
  }

  std::vector<TemplateWait> find() {
    // The first steps that wait, device by device: what keeps them is near.
    std::uint32_t longest = 0;
    for (std::size_t d = 0; d < lists_.devices(); ++d) {
      longest = std::max(longest, lists_.length(d) - lists_.head(d));
    }
    for (std::uint32_t i = 0; i < longest; ++i) {
      for (std::size_t d = 0; d < lists_.devices(); ++d) {
        if (lists_.head(d) + i >= lists_.length(d)) continue;
        if (visits_ > kMostVisits && !best_.empty()) return best_;
        search(lists_.task_at(d, lists_.head(d) + i));
      }
    }
    PLANSEARCH_CHECK(!best_.empty());
    return best_;
  }

 private:
  static constexpr std::size_t kMostVisits = 20'000'000;
  enum Reached : std::uint8_t { ByInput, BySequence };
  struct State {
    Task task = 0;
    Reached how = ByInput;
    std::uint32_t depth = 0;
    std::uint32_t device = 0;  ///< reached on, by sequence
  };

  /// From a step that waits for an input, back to it.
  void search(Task start) {
    start_ = start;
    states_.assign(1, {start, BySequence, 0, 0});
    opened_.assign(lists_.devices(), 0);
    closed_ = false;
    for (std::size_t i = 0; i < states_.size() && !closed_; ++i) {
      const State state = states_[i];
      if (!best_.empty() && state.depth + 1 >= best_.size()) break;
      ++visits_;
      follow_inputs(static_cast<std::uint32_t>(i), state);
      if (state.how == ByInput && !closed_) follow_lists(static_cast<std::uint32_t>(i), state);
    }
    for (const State& state : states_) {
      reached_by_[state.how][state.task] = kNone;
    }
    reached_by_[ByInput][start] = reached_by_[BySequence][start] = kNone;
  }

  void follow_inputs(std::uint32_t from, const State& state) {
    for (const NodeId input : lists_.inputs(state.task)) {
      const Task needed = lists_.task(input, state.task);
      if (lists_.done(needed) || lists_.made_within(needed, state.task)) continue;
      if (reach(from, {needed, ByInput, state.depth + 1, 0})) return;
    }
  }
  /// Every earlier step of the devices, and the others of the piece.
  void follow_lists(std::uint32_t from, const State& state) {
    for (const Place& place : lists_.places(state.task)) {
      const std::uint32_t end = lists_.end_of_piece(place);
      std::uint32_t& opened = opened_[place.device];
      for (std::uint32_t i = std::max(lists_.head(place.device), opened); i < end; ++i) {
        const Task before = lists_.task_at(place.device, i);
        if (before == state.task) continue;
        if (reach(from, {before, BySequence, state.depth + 1, place.device})) return;
      }
      // The step itself stays closed to this state alone: it was reached already.
      opened = std::max(opened, end);
    }
  }

  /// Notes a state; true where the circle is closed.
  bool reach(std::uint32_t from, State state) {
    if (state.task == start_) {
      closed_ = true;
      keep(from, state);
      return true;
    }
    std::uint32_t& known = reached_by_[state.how][state.task];
    if (known != kNone) return false;
    known = from;
    states_.push_back(state);
    return false;
  }

  /// The states from `start` to `from`, and the wait that closes the circle.
  void keep(std::uint32_t from, const State& closing) {
    std::vector<State> path;
    for (std::uint32_t at = from; at != 0; at = reached_by_[states_[at].how][states_[at].task]) {
      path.push_back(states_[at]);
    }
    path.push_back(states_.front());
    std::reverse(path.begin(), path.end());
    best_.clear();
    for (std::size_t i = 0; i < path.size(); ++i) {
      const State& next = i + 1 < path.size() ? path[i + 1] : closing;
      const bool sequence = next.how == BySequence;
      const std::uint32_t device = sequence ? next.device
                                   : path[i].how == BySequence && i > 0
                                       ? path[i].device
                                       : lists_.places(path[i].task).front().device;
      best_.push_back({static_cast<int>(device), lists_.step_of(path[i].task),
                       sequence ? WhyWaits::Sequence : WhyWaits::Input});
    }
  }

  const Lists& lists_;
  std::vector<std::uint32_t> reached_by_[2];  ///< by how and task: index of a state
  std::vector<State> states_;
  std::vector<std::uint32_t> opened_;  ///< by device: steps before it were reached
  std::vector<TemplateWait> best_;
  Task start_ = 0;
  bool closed_ = false;
  std::size_t visits_ = 0;
};

}  // namespace

std::vector<TemplateWait> find_deadlock(const TaskTemplate& plan, int micro_batches,
                                        const TemplateLists& lists) {
  Lists tasks(plan, micro_batches, lists);
  if (tasks.run()) return {};
  return ShortestCycle(tasks).find();
}

}  // namespace plansearch
