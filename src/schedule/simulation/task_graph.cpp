// SPDX-License-Identifier: Apache-2.0
// Computes:   starts and ends of the tasks of a program.
// Source:     longest path in a directed acyclic graph; where messages that share a link meet on
//             it, a simulation of events with rates that are constant between them. Where none
//             meet, every rate is 1 at every event, and both are the same.
// Assumes:    of the messages on one resource each gets the same share of its full speed.
// Units:      ticks.
// Checked by: tests/unit/schedule/simulator_test.cpp, against the pipeline simulator;
//             shared_links_test.cpp
#include "schedule/simulation/task_graph.hpp"

#include <algorithm>
#include <cmath>
#include <queue>

#include "plansearch/stop_token.hpp"

namespace plansearch {

void TaskSimulator::run(const TaskGraph& graph, std::span<const Ticks> duration_table) {
  const std::size_t count = graph.tasks.size();
  starts_.resize(count);
  ends_.resize(count);
  makespan_ = 0;
  for (TaskId task = 0; task < count; ++task) {
    Ticks start = 0;
    for (std::uint32_t e = graph.first_edge[task]; e < graph.first_edge[task + 1]; ++e) {
      start = std::max(start, ends_[graph.waits_for[e]]);
    }
    starts_[task] = start;
    ends_[task] = start + duration_table[graph.duration[task]];
    makespan_ = std::max(makespan_, ends_[task]);
  }
}

/// Tasks end in the order of time. A transfer has work left, which shrinks by the rate of its
/// channel; rates change when a transfer starts or ends.
class SharedLinkSimulation {
 public:
  SharedLinkSimulation(const Program& program, const TaskGraph& graph,
                       std::span<const Ticks> durations, TaskSimulator& result)
      : program_(program), graph_(graph), durations_(durations), result_(result) {
    const std::size_t count = graph.tasks.size();
    result.starts_.assign(count, 0);
    result.ends_.assign(count, 0);
    result.makespan_ = 0;
    open_.resize(count);
    first_.assign(count + 1, 0);
    for (const TaskId before : graph.waits_for) ++first_[before + 1];
    for (std::size_t i = 0; i < count; ++i) first_[i + 1] += first_[i];
    followers_.resize(graph.waits_for.size());
    std::vector<std::uint32_t> next(first_.begin(), first_.end() - 1);
    for (TaskId task = 0; task < count; ++task) {
      open_[task] = graph.first_edge[task + 1] - graph.first_edge[task];
      for (std::uint32_t e = graph.first_edge[task]; e < graph.first_edge[task + 1]; ++e) {
        followers_[next[graph.waits_for[e]]++] = task;
      }
    }
    moving_.resize(program.channels.size());
    load_.resize(program.resources.size());
  }

  void run() {
    for (TaskId task = 0; task < open_.size(); ++task) {
      if (open_[task] == 0) start(task, 0);
    }
    change_rates(0);
    while (!events_.empty()) {
      stop_.check();
      const Ticks now = events_.top().at;
      while (!events_.empty() && events_.top().at == now) {
        const Event event = events_.top();
        events_.pop();
        if (is_current(event)) finish(event.task, now);
      }
      change_rates(now);
    }
  }

 private:
  struct Event {
    Ticks at = 0;
    TaskId task = 0;
    std::uint32_t version = 0;
    bool operator>(const Event& other) const {
      return at != other.at ? at > other.at : task > other.task;
    }
  };
  /// The message that travels on a channel with shared resources.
  struct Moving {
    TaskId task = kNoId;
    double left = 0.0;  ///< ticks at full speed
    double rate = 1.0;
    Ticks since = 0;
    std::uint32_t version = 0;
  };

  [[nodiscard]] std::uint32_t shared_channel(TaskId task) const {
    if (!graph_.tasks[task].transfer) return kNoId;
    const std::uint32_t channel = program_.messages[graph_.tasks[task].index].channel;
    return program_.channels[channel].uses.empty() ? kNoId : channel;
  }
  [[nodiscard]] bool is_current(const Event& event) const {
    const std::uint32_t channel = shared_channel(event.task);
    return channel == kNoId ||
           (moving_[channel].task == event.task && moving_[channel].version == event.version);
  }

  void start(TaskId task, Ticks now) {
    const Ticks duration = durations_[graph_.duration[task]];
    result_.starts_[task] = now;
    const std::uint32_t channel = shared_channel(task);
    if (channel == kNoId || duration == 0) {
      if (channel != kNoId) moving_[channel] = {task, 0.0, 1.0, now, 0};
      events_.push({now + duration, task, 0});
      return;
    }
    moving_[channel] = {task, static_cast<double>(duration), 0.0, now, 0};
    moved_ = true;
  }

  void finish(TaskId task, Ticks now) {
    result_.ends_[task] = now;
    result_.makespan_ = std::max(result_.makespan_, now);
    if (const std::uint32_t channel = shared_channel(task); channel != kNoId) {
      moving_[channel].task = kNoId;
      moved_ = true;
    }
    for (std::uint32_t e = first_[task]; e < first_[task + 1]; ++e) {
      if (--open_[followers_[e]] == 0) start(followers_[e], now);
    }
  }

  /// Each message at the speed that the fullest of its resources leaves.
  void change_rates(Ticks now) {
    if (!moved_) return;
    moved_ = false;
    std::fill(load_.begin(), load_.end(), 0.0);
    for (std::size_t c = 0; c < moving_.size(); ++c) {
      if (moving_[c].task == kNoId) continue;
      for (const ResourceUse& use : program_.channels[c].uses) load_[use.resource] += use.demand;
    }
    for (std::size_t c = 0; c < moving_.size(); ++c) {
      Moving& message = moving_[c];
      if (message.task == kNoId) continue;
      double fullest = 1.0;
      for (const ResourceUse& use : program_.channels[c].uses) {
        fullest = std::max(fullest, load_[use.resource]);
      }
      const double rate = 1.0 / fullest;
      if (rate == message.rate) continue;
      message.left -= message.rate * static_cast<double>(now - message.since);
      message.rate = rate;
      message.since = now;
      ++message.version;
      const double left = std::max(std::ceil(message.left / rate - 1e-6), 0.0);
      events_.push({now + static_cast<Ticks>(left), message.task, message.version});
    }
  }

  const Program& program_;
  const TaskGraph& graph_;
  std::span<const Ticks> durations_;
  TaskSimulator& result_;
  std::vector<std::uint32_t> open_;
  std::vector<std::uint32_t> first_;
  std::vector<TaskId> followers_;
  std::vector<Moving> moving_;  ///< by channel
  std::vector<double> load_;    ///< by resource
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  bool moved_ = false;
  OccasionalStop stop_{4096};
};

namespace {

/// A message on its way.
struct Travel {
  Ticks start = 0;
  Ticks end = 0;
  double demand = 1.0;
};

/// Whether they ever ask for more than all of a resource; by the time they start.
bool exceed_one(const std::vector<Travel>& travels) {
  std::vector<Travel> under_way;
  for (const Travel& travel : travels) {
    std::erase_if(under_way, [&](const Travel& other) { return other.end <= travel.start; });
    under_way.push_back(travel);
    double load = 0.0;
    for (const Travel& other : under_way) load += other.demand;
    if (load > 1.0) return true;
  }
  return false;
}

}  // namespace

bool TaskSimulator::messages_meet(const Program& program, const TaskGraph& graph) const {
  std::vector<std::vector<Travel>> sent(program.channels.size());
  for (TaskId task = 0; task < graph.tasks.size(); ++task) {
    if (!graph.tasks[task].transfer || starts_[task] == ends_[task]) continue;
    const std::uint32_t channel = program.messages[graph.tasks[task].index].channel;
    if (!program.channels[channel].uses.empty()) {
      sent[channel].push_back({starts_[task], ends_[task], 1.0});
    }
  }
  std::vector<std::vector<ResourceUse>> users(program.resources.size());  // channels, as `resource`
  for (std::uint32_t c = 0; c < program.channels.size(); ++c) {
    for (const ResourceUse& use : program.channels[c].uses) {
      if (!sent[c].empty()) users[use.resource].push_back({c, use.demand});
    }
  }
  const auto earlier = [](const Travel& a, const Travel& b) { return a.start < b.start; };
  std::vector<Travel> travels;
  for (const auto& channels : users) {
    double most = 0.0;
    for (const ResourceUse& channel : channels) most += channel.demand;
    if (most <= 1.0) continue;  // a channel has one message at a time
    travels.clear();
    for (const ResourceUse& channel : channels) {
      const auto before = static_cast<std::ptrdiff_t>(travels.size());
      for (Travel travel : sent[channel.resource]) {
        travel.demand = channel.demand;
        travels.push_back(travel);
      }
      std::inplace_merge(travels.begin(), travels.begin() + before, travels.end(), earlier);
    }
    if (exceed_one(travels)) return true;
  }
  return false;
}

void TaskSimulator::run(const Program& program, const TaskGraph& graph,
                        std::span<const Ticks> duration_table) {
  run(graph, duration_table);
  if (!messages_meet(program, graph)) return;
  SharedLinkSimulation(program, graph, duration_table, *this).run();
}

}  // namespace plansearch
