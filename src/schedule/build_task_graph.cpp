// SPDX-License-Identifier: Apache-2.0
// Computes:   the task graph of a program, or the cycle or mismatch that keeps it from running.
// Source:     definitions in program.hpp.
// Assumes:    messages of a channel travel one at a time in the order they are posted.
// Units:      none.
// Checked by: tests/unit/schedule/lowering_test.cpp
#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <boost/range/iterator_range.hpp>
#include <map>
#include <optional>
#include <set>

#include "schedule/lowering.hpp"

namespace plansearch {
namespace {

using TaskIndex = std::uint32_t;

/// From a task to what it waits for.
using Waits = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, EdgeKind,
                                                 boost::no_property, TaskIndex>;
using WaitEdge = boost::graph_traits<Waits>::edge_descriptor;

/// Lists tasks as they are finished, and the first cycle of waits.
class Finisher : public boost::default_dfs_visitor {
 public:
  Finisher(std::vector<TaskIndex>& sequence, std::vector<std::optional<WaitEdge>>& reached_by,
           std::vector<WaitEdge>& cycle)
      : sequence_(sequence), reached_by_(reached_by), cycle_(cycle) {}

  void tree_edge(WaitEdge edge, const Waits& waits) {
    reached_by_[boost::target(edge, waits)] = edge;
  }
  void back_edge(WaitEdge edge, const Waits& waits) {
    if (!cycle_.empty()) return;
    cycle_.push_back(edge);
    const TaskIndex first = boost::target(edge, waits);
    for (TaskIndex task = boost::source(edge, waits); task != first;) {
      cycle_.push_back(*reached_by_[task]);
      task = boost::source(cycle_.back(), waits);
    }
    std::reverse(cycle_.begin(), cycle_.end());
  }
  void finish_vertex(TaskIndex task, const Waits&) { sequence_.push_back(task); }

 private:
  std::vector<TaskIndex>& sequence_;
  std::vector<std::optional<WaitEdge>>& reached_by_;
  std::vector<WaitEdge>& cycle_;
};

struct Edge {
  TaskIndex task;  ///< waits for
  TaskIndex before;
  EdgeKind kind;
};

/// One message: the tasks at its two ends, in the order of its channel.
struct Message {
  InstructionKey key;
  std::uint32_t duration = 0;
  TaskIndex posted = 0;
};
struct Receipt {
  InstructionKey key;
  TaskIndex posted = 0;
};
struct Line {
  std::vector<Message> sent;
  std::vector<Receipt> received;
  std::vector<std::pair<InstructionKey, TaskIndex>> send_waits;
  std::vector<std::pair<InstructionKey, TaskIndex>> receive_waits;
  std::map<InstructionKey, TaskIndex> used_by;  ///< what ends the use of a receive buffer
};

class Builder {
 public:
  explicit Builder(const Program& program) : program_(program), lines_(program.channels.size()) {}

  std::variant<TaskGraph, ProgramFault> build() {
    for (const Queue& queue : program_.queues) add_queue(queue);
    for (const LocalDependency& need : program_.dependencies) {
      edges_.push_back({task_at(need.to), task_at(need.from), EdgeKind::Data});
    }
    for (std::size_t c = 0; c < lines_.size(); ++c) {
      if (auto fault = mismatch(c)) return *fault;
      add_channel(c);
    }
    return sorted();
  }

 private:
  [[nodiscard]] TaskIndex task_at(InstructionPlace place) const {
    return tasks_of_queue_[place.queue][place.position];
  }

  TaskIndex add_task(TaskInfo info, std::uint32_t duration) {
    infos_.push_back(info);
    durations_.push_back(duration);
    return static_cast<TaskIndex>(infos_.size() - 1);
  }

  TaskIndex task_of(const Queue& queue, const Instruction& instruction) {
    if (instruction.gang) {
      const auto found = gangs_.find(*instruction.gang);
      if (found != gangs_.end()) return found->second;
    }
    const auto kind = static_cast<TaskKind>(instruction.action.index());
    const bool message = kind == TaskKind::PostSend;
    const TaskIndex task = add_task({instruction.key, kind, queue.device, queue.stream},
                                    message ? 0 : instruction.duration);
    if (instruction.gang) gangs_[*instruction.gang] = task;
    return task;
  }

  void add_queue(const Queue& queue) {
    std::vector<TaskIndex>& tasks = tasks_of_queue_.emplace_back();
    std::vector<std::pair<int, InstructionKey>> in_use;  // received, not yet used
    for (const Instruction& instruction : queue.instructions) {
      const TaskIndex task = task_of(queue, instruction);
      if (!tasks.empty()) edges_.push_back({task, tasks.back(), EdgeKind::Queue});
      tasks.push_back(task);
      note_channel_use(instruction, task, in_use);
    }
    for (const auto& [channel, key] : in_use) line(channel).used_by[key] = tasks.back();
  }

  void note_channel_use(const Instruction& instruction, TaskIndex task,
                        std::vector<std::pair<int, InstructionKey>>& in_use) {
    const InstructionKey& key = instruction.key;
    if (const auto* post = std::get_if<PostSend>(&instruction.action)) {
      line(post->channel).sent.push_back({key, instruction.duration, task});
    } else if (const auto* receive = std::get_if<PostReceive>(&instruction.action)) {
      line(receive->channel).received.push_back({key, task});
    } else if (const auto* wait = std::get_if<Wait>(&instruction.action)) {
      const bool sender = wait->end == ChannelEnd::Send;
      auto& waits = sender ? line(wait->channel).send_waits : line(wait->channel).receive_waits;
      waits.emplace_back(key, task);
      if (!sender) in_use.emplace_back(wait->channel, key);
    } else if (std::holds_alternative<Run>(instruction.action)) {
      for (const auto& [channel, message] : in_use) line(channel).used_by[message] = task;
      in_use.clear();
    }
  }

  Line& line(int channel) { return lines_[static_cast<std::size_t>(channel)]; }

  /// Both ends name the same messages in the same sequence, and every wait names one of them.
  [[nodiscard]] std::optional<ProgramFault> mismatch(std::size_t c) const {
    const Line& line = lines_[c];
    std::set<InstructionKey> sent;
    const std::size_t count = std::max(line.sent.size(), line.received.size());
    for (std::size_t n = 0; n < count; ++n) {
      std::vector<TaskIndex> ends;
      if (n < line.sent.size()) ends.push_back(line.sent[n].posted);
      if (n < line.received.size()) ends.push_back(line.received[n].posted);
      const bool same = ends.size() == 2 && line.sent[n].key == line.received[n].key;
      if (!same || !sent.insert(line.sent[n].key).second) return mismatch_of(c, n, ends);
    }
    for (const auto* waits : {&line.send_waits, &line.receive_waits}) {
      for (const auto& [key, task] : *waits) {
        if (!sent.contains(key)) return mismatch_of(c, count, {task});
      }
    }
    return std::nullopt;
  }

  [[nodiscard]] ProgramFault mismatch_of(std::size_t c, std::size_t message,
                                         const std::vector<TaskIndex>& ends) const {
    const Channel& channel = program_.channels[c];
    ProgramFault fault{FaultKind::ChannelMismatch, {}, {}};
    fault.detail = "message " + std::to_string(message + 1) + " from device " +
                   std::to_string(channel.source) + " to device " +
                   std::to_string(channel.destination) + " is not the same at both ends:";
    for (const TaskIndex end : ends) {
      fault.waits.push_back({infos_[end], EdgeKind::Rendezvous});
      fault.detail += "\n  " + to_text(infos_[end]);
    }
    return fault;
  }

  void add_channel(std::size_t c) {
    const Line& line = lines_[c];
    const Channel& channel = program_.channels[c];
    const bool eager = channel.semantics == ChannelSemantics::Eager;
    std::map<InstructionKey, TaskIndex> transfers;
    std::optional<TaskIndex> previous;
    for (std::size_t n = 0; n < line.sent.size(); ++n) {
      const Message& message = line.sent[n];
      const TaskIndex transfer = add_task(
          {message.key, TaskKind::Transfer, channel.source, StreamKind::Send}, message.duration);
      transfers[message.key] = transfer;
      edges_.push_back({transfer, message.posted, EdgeKind::Data});
      if (previous) edges_.push_back({transfer, *previous, EdgeKind::Queue});
      previous = transfer;
      const TaskIndex receive = line.received[n].posted;
      if (!eager) edges_.push_back({transfer, receive, EdgeKind::Rendezvous});
      if (!channel.receive_slots) continue;
      const auto slots = static_cast<std::size_t>(*channel.receive_slots);
      if (n < slots) continue;
      const auto user = line.used_by.find(line.sent[n - slots].key);
      if (user != line.used_by.end()) {
        edges_.push_back({eager ? transfer : receive, user->second, EdgeKind::Slot});
      }
    }
    for (const auto* waits : {&line.send_waits, &line.receive_waits}) {
      for (const auto& [key, task] : *waits) {
        edges_.push_back({task, transfers.at(key), EdgeKind::Data});
      }
    }
  }

  /// Depth first along what tasks wait for: a task is finished after all of them.
  [[nodiscard]] std::variant<TaskGraph, ProgramFault> sorted() const {
    std::vector<std::pair<TaskIndex, TaskIndex>> ends;
    std::vector<EdgeKind> kinds;
    for (const Edge& edge : edges_) {
      ends.emplace_back(edge.task, edge.before);
      kinds.push_back(edge.kind);
    }
    const Waits waits(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), kinds.begin(),
                      static_cast<TaskIndex>(infos_.size()));
    std::vector<TaskIndex> sequence;
    std::vector<WaitEdge> cycle;
    std::vector<std::optional<WaitEdge>> reached_by(infos_.size());
    boost::depth_first_search(waits, boost::visitor(Finisher(sequence, reached_by, cycle)));
    return cycle.empty() ? std::variant<TaskGraph, ProgramFault>(graph_of(waits, sequence))
                         : deadlock(waits, cycle);
  }

  [[nodiscard]] TaskGraph graph_of(const Waits& waits,
                                   const std::vector<TaskIndex>& sequence) const {
    std::vector<TaskIndex> renamed(infos_.size());
    for (TaskIndex n = 0; n < sequence.size(); ++n) renamed[sequence[n]] = n;
    TaskGraph graph;
    graph.first_edge.push_back(0);
    for (const TaskIndex task : sequence) {
      graph.tasks.push_back(infos_[task]);
      graph.duration.push_back(durations_[task]);
      for (const WaitEdge edge : boost::make_iterator_range(boost::out_edges(task, waits))) {
        graph.waits_for.push_back(renamed[boost::target(edge, waits)]);
        graph.edge_kinds.push_back(waits[edge]);
      }
      graph.first_edge.push_back(static_cast<std::uint32_t>(graph.waits_for.size()));
    }
    return graph;
  }

  [[nodiscard]] ProgramFault deadlock(const Waits& waits,
                                      const std::vector<WaitEdge>& cycle) const {
    ProgramFault fault{FaultKind::Deadlock, {}, "deadlock, each waits for the next:"};
    for (const WaitEdge edge : cycle) {
      fault.waits.push_back({infos_[boost::source(edge, waits)], waits[edge]});
      fault.detail += "\n  " + to_text(fault.waits.back().task);
    }
    return fault;
  }

  const Program& program_;
  std::vector<Line> lines_;
  std::vector<TaskInfo> infos_;
  std::vector<std::uint32_t> durations_;
  std::vector<Edge> edges_;
  std::vector<std::vector<TaskIndex>> tasks_of_queue_;
  std::map<int, TaskIndex> gangs_;
};

}  // namespace

std::string to_text(const TaskInfo& task) {
  constexpr const char* kKinds[] = {"run",      "send", "receive", "wait for",   "collective of",
                                    "allocate", "free", "apply",   "transfer of"};
  constexpr const char* kStreams[] = {"compute", "send", "receive", "collective"};
  constexpr char kPhases[] = {'F', 'B', 'W'};
  return "device " + std::to_string(task.device) + " " +
         kStreams[static_cast<std::size_t>(task.stream)] + ": " +
         kKinds[static_cast<std::size_t>(task.kind)] + " " +
         kPhases[static_cast<std::size_t>(task.key.phase)] + std::to_string(task.key.micro_batch) +
         " of stage " + std::to_string(task.key.group);
}

std::variant<TaskGraph, ProgramFault> build_task_graph(const Program& program) {
  return Builder(program).build();
}

}  // namespace plansearch
