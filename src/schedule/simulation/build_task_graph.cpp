// SPDX-License-Identifier: Apache-2.0
// Computes:   the task graph of a program, or the cycle or mismatch that keeps it from running.
// Source:     definitions in program.hpp; Kahn (1962) for the sequence.
// Assumes:    messages of a channel travel one at a time in the order they are posted.
// Units:      none.
// Checked by: tests/unit/schedule/lowering_test.cpp
#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <optional>

#include "plansearch/stop_token.hpp"
#include "schedule/program/lowering.hpp"

namespace plansearch {
namespace {

/// The tasks at the two ends of a message.
struct Ends {
  TaskId posted = kNoId;
  TaskId received = kNoId;  ///< when its receive is posted
};

struct Edge {
  TaskId task;  ///< waits for
  TaskId before;
  EdgeKind kind;
};

class Builder {
 public:
  explicit Builder(const Program& program)
      : program_(program),
        ends_(program.messages.size()),
        sent_(program.channels.size()),
        received_(program.channels.size()) {
    graph_.task_of.assign(program.instructions.size(), kNoId);
    graph_.transfer_of.assign(program.messages.size(), kNoId);
    const std::size_t tasks = program.instructions.size() + 2 * program.messages.size();
    graph_.tasks.reserve(tasks);
    graph_.duration.reserve(tasks);
    edges_.reserve(2 * tasks);
  }

  std::variant<TaskGraph, ProgramFault> build() {
    for (const Queue& queue : program_.queues) {
      check_stop();
      add_queue(queue);
    }
    for (const Event& event : program_.events) {
      const TaskId after = graph_.task_of[event.after];
      // A send or receive is awaited at its end and held up at its post.
      const TaskId before = first_task(event.before);
      if (after != kNoId && before != kNoId) edges_.push_back({before, after, EdgeKind::Data});
    }
    for (std::size_t c = 0; c < program_.channels.size(); ++c) {
      if (auto fault = mismatch(c)) return *std::move(fault);
      add_channel(c);
    }
    for (const auto& [wait, message] : waits_) {
      const TaskId transfer = graph_.transfer_of[message];
      if (transfer == kNoId) return no_such_message(wait);
      edges_.push_back({wait, transfer, EdgeKind::Data});
    }
    if (!renumber()) return deadlock();
    collect_edges();
    return std::move(graph_);
  }

 private:
  TaskId add_task(Task task, std::uint32_t duration) {
    graph_.tasks.push_back(task);
    graph_.duration.push_back(duration);
    return static_cast<TaskId>(graph_.tasks.size() - 1);
  }
  [[nodiscard]] TaskId first_task(InstructionId id) const {
    const Instruction& instruction = program_.instructions[id];
    if (instruction.opcode == Opcode::Send) return ends_[instruction.subject].posted;
    if (instruction.opcode == Opcode::Receive) return ends_[instruction.subject].received;
    return graph_.task_of[id];
  }

  void add_queue(const Queue& queue) {
    TaskId last = kNoId;
    const auto follow = [&](TaskId task) {
      if (last != kNoId) edges_.push_back({task, last, EdgeKind::Queue});
      last = task;
    };
    for (const InstructionId id : queue.order) {
      const Instruction& instruction = program_.instructions[id];
      if (!is_about_buffer(instruction.opcode)) add_instruction(id, instruction, follow);
      graph_.task_of[id] = last;
    }
  }

  template <typename Follow>
  void add_instruction(InstructionId id, const Instruction& instruction, Follow follow) {
    if (!is_about_message(instruction.opcode)) {
      follow(task_of_gang(id, instruction));
      return;
    }
    const MessageId message = instruction.subject;
    const std::uint32_t channel = program_.messages[message].channel;
    const Opcode opcode = instruction.opcode;
    if (opcode == Opcode::Send || opcode == Opcode::PostSend) {
      follow(ends_[message].posted = add_task({id, Opcode::PostSend}, 0));
      sent_[channel].push_back(message);
    }
    if (opcode == Opcode::Receive || opcode == Opcode::PostReceive) {
      follow(ends_[message].received = add_task({id, Opcode::PostReceive}, 0));
      received_[channel].push_back(message);
    }
    if (opcode == Opcode::PostSend || opcode == Opcode::PostReceive) return;
    const bool sender = opcode == Opcode::Send || opcode == Opcode::WaitSent;
    const TaskId wait = add_task({id, sender ? Opcode::WaitSent : Opcode::WaitArrived}, 0);
    follow(wait);
    waits_.emplace_back(wait, message);
  }

  TaskId task_of_gang(InstructionId id, const Instruction& instruction) {
    if (instruction.subject == kNoId)
      return add_task({id, instruction.opcode}, instruction.duration);
    if (gangs_.size() <= instruction.subject) gangs_.resize(instruction.subject + 1, kNoId);
    TaskId& gang = gangs_[instruction.subject];
    if (gang == kNoId) gang = add_task({id, instruction.opcode}, instruction.duration);
    return gang;
  }

  [[nodiscard]] std::optional<ProgramFault> mismatch(std::size_t channel) const {
    const auto& sent = sent_[channel];
    const auto& received = received_[channel];
    const auto [a, b] = std::mismatch(sent.begin(), sent.end(), received.begin(), received.end());
    if (a == sent.end() && b == received.end()) return std::nullopt;
    const Channel& line = program_.channels[channel];
    ProgramFault fault{FaultKind::ChannelMismatch, {}, {}};
    fault.detail = "message " + std::to_string(a - sent.begin() + 1) + " from device " +
                   std::to_string(line.source) + " to device " + std::to_string(line.destination) +
                   " is not the same at both ends:";
    const auto tell = [&](TaskId task) {
      fault.waits.push_back({task_info(program_, graph_, task), EdgeKind::Rendezvous});
      fault.detail += "\n  " + to_text(fault.waits.back().task);
    };
    if (a != sent.end()) tell(ends_[*a].posted);
    if (b != received.end()) tell(ends_[*b].received);
    return fault;
  }
  [[nodiscard]] ProgramFault no_such_message(TaskId wait) const {
    const TaskInfo info = task_info(program_, graph_, wait);
    return {FaultKind::ChannelMismatch,
            {{info, EdgeKind::Data}},
            "nobody sends what this waits for:\n  " + to_text(info)};
  }

  void add_channel(std::size_t index) {
    const Channel& channel = program_.channels[index];
    const auto& sent = sent_[index];
    for (std::size_t n = 0; n < sent.size(); ++n) {
      const MessageId message = sent[n];
      const TaskId transfer =
          add_task({message, Opcode::PostSend, true}, program_.messages[message].duration);
      graph_.transfer_of[message] = transfer;
      edges_.push_back({transfer, ends_[message].posted, EdgeKind::Data});
      if (n > 0) edges_.push_back({transfer, graph_.transfer_of[sent[n - 1]], EdgeKind::Queue});
      const TaskId receive = ends_[message].received;
      edges_.push_back({transfer, receive, EdgeKind::Rendezvous});
      if (!channel.receive_slots) continue;
      const auto slots = static_cast<std::size_t>(*channel.receive_slots);
      if (n < slots) continue;
      const InstructionId user = program_.messages[sent[n - slots]].consumer;
      if (user == kNoId || graph_.task_of[user] == kNoId) continue;
      edges_.push_back({receive, graph_.task_of[user], EdgeKind::Slot});
    }
  }

  /// By task, in the order in which they were found.
  void collect_edges() {
    const std::size_t count = graph_.tasks.size();
    graph_.first_edge.assign(count + 1, 0);
    for (const Edge& edge : edges_) ++graph_.first_edge[edge.task + 1];
    for (std::size_t i = 0; i < count; ++i) graph_.first_edge[i + 1] += graph_.first_edge[i];
    graph_.waits_for.resize(edges_.size());
    graph_.edge_kinds.resize(edges_.size());
    std::vector<std::uint32_t> next(graph_.first_edge.begin(), graph_.first_edge.end() - 1);
    for (const Edge& edge : edges_) {
      const std::uint32_t at = next[edge.task]++;
      graph_.waits_for[at] = edge.before;
      graph_.edge_kinds[at] = edge.kind;
    }
  }

  /// All tasks, each after those it waits for; fewer where some wait for each other.
  [[nodiscard]] std::vector<TaskId> sequence() const {
    const std::size_t count = graph_.tasks.size();
    std::vector<std::uint32_t> first(count + 1, 0);
    std::vector<std::uint32_t> open(count, 0);
    for (const Edge& edge : edges_) {
      ++first[edge.before + 1];
      ++open[edge.task];
    }
    for (std::size_t i = 0; i < count; ++i) first[i + 1] += first[i];
    std::vector<TaskId> followers(edges_.size());
    std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
    for (const Edge& edge : edges_) followers[next[edge.before]++] = edge.task;
    std::vector<TaskId> sequence;
    sequence.reserve(count);
    for (TaskId task = 0; task < count; ++task) {
      if (open[task] == 0) sequence.push_back(task);
    }
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      const TaskId task = sequence[i];
      for (std::uint32_t e = first[task]; e < first[task + 1]; ++e) {
        if (--open[followers[e]] == 0) sequence.push_back(followers[e]);
      }
    }
    return sequence;
  }

  /// Tasks are numbered in the order in which they can run, so that a run goes through memory from
  /// front to back. False where some wait for each other.
  bool renumber() {
    const std::vector<TaskId> old_ids = sequence();
    const std::size_t count = graph_.tasks.size();
    if (old_ids.size() < count) return false;
    std::vector<TaskId> new_ids(count);
    std::vector<Task> tasks(count);
    std::vector<std::uint32_t> duration(count);
    for (TaskId id = 0; id < count; ++id) {
      new_ids[old_ids[id]] = id;
      tasks[id] = graph_.tasks[old_ids[id]];
      duration[id] = graph_.duration[old_ids[id]];
    }
    graph_.tasks = std::move(tasks);
    graph_.duration = std::move(duration);
    for (Edge& edge : edges_) edge = {new_ids[edge.task], new_ids[edge.before], edge.kind};
    for (auto* ids : {&graph_.task_of, &graph_.transfer_of}) {
      for (TaskId& id : *ids) id = id == kNoId ? kNoId : new_ids[id];
    }
    return true;
  }

  [[nodiscard]] ProgramFault deadlock() const;

  const Program& program_;
  TaskGraph graph_;
  std::vector<Ends> ends_;                        ///< by message
  std::vector<std::vector<MessageId>> sent_;      ///< by channel
  std::vector<std::vector<MessageId>> received_;  ///< by channel
  std::vector<std::pair<TaskId, MessageId>> waits_;
  std::vector<Edge> edges_;
  std::vector<TaskId> gangs_;
};

/// From a task to what it waits for.
using Waits = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, EdgeKind,
                                                 boost::no_property, TaskId>;
using WaitEdge = boost::graph_traits<Waits>::edge_descriptor;

/// Notes the first cycle of waits.
class CycleFinder : public boost::default_dfs_visitor {
 public:
  CycleFinder(std::vector<std::optional<WaitEdge>>& reached_by, std::vector<WaitEdge>& cycle)
      : reached_by_(reached_by), cycle_(cycle) {}

  void tree_edge(WaitEdge edge, const Waits& waits) {
    reached_by_[boost::target(edge, waits)] = edge;
  }
  void back_edge(WaitEdge edge, const Waits& waits) {
    if (!cycle_.empty()) return;
    cycle_.push_back(edge);
    const TaskId first = boost::target(edge, waits);
    for (TaskId task = boost::source(edge, waits); task != first;) {
      cycle_.push_back(*reached_by_[task]);
      task = boost::source(cycle_.back(), waits);
    }
    std::reverse(cycle_.begin(), cycle_.end());
  }

 private:
  std::vector<std::optional<WaitEdge>>& reached_by_;
  std::vector<WaitEdge>& cycle_;
};

ProgramFault Builder::deadlock() const {
  std::vector<std::pair<TaskId, TaskId>> ends;
  std::vector<EdgeKind> kinds;
  for (const Edge& edge : edges_) {
    ends.emplace_back(edge.task, edge.before);
    kinds.push_back(edge.kind);
  }
  const Waits waits(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), kinds.begin(),
                    static_cast<TaskId>(graph_.tasks.size()));
  std::vector<WaitEdge> cycle;
  std::vector<std::optional<WaitEdge>> reached_by(graph_.tasks.size());
  boost::depth_first_search(waits, boost::visitor(CycleFinder(reached_by, cycle)));
  ProgramFault fault{FaultKind::Deadlock, {}, "deadlock, each waits for the next:"};
  for (const WaitEdge edge : cycle) {
    fault.waits.push_back({task_info(program_, graph_, boost::source(edge, waits)), waits[edge]});
    fault.detail += "\n  " + to_text(fault.waits.back().task);
  }
  return fault;
}

}  // namespace

TaskInfo task_info(const Program& program, const TaskGraph& graph, TaskId id) {
  const Task& task = graph.tasks[id];
  if (task.transfer) {
    const Message& message = program.messages[task.index];
    return {message.key, task.opcode, true, program.channels[message.channel].source,
            StreamKind::Send};
  }
  TaskInfo info{program.instructions[task.index].key, task.opcode, false, 0, StreamKind::Compute};
  for (const Queue& queue : program.queues) {
    if (std::find(queue.order.begin(), queue.order.end(), task.index) == queue.order.end())
      continue;
    info.device = queue.device;
    info.stream = queue.stream;
    break;
  }
  return info;
}

std::string to_text(const TaskInfo& task) {
  constexpr const char* kKinds[] = {"run",     "send",     "receive",  "send",
                                    "receive", "wait for", "wait for", "collective of",
                                    "apply",   "allocate", "free"};
  constexpr const char* kStreams[] = {"compute", "send", "receive", "collective"};
  const char* kind = task.transfer ? "transfer of" : kKinds[static_cast<std::size_t>(task.opcode)];
  return "device " + std::to_string(task.device) + " " +
         kStreams[static_cast<std::size_t>(task.stream)] + ": " + kind + " " +
         step_name(task.key.phase, task.key.micro_batch) + " of stage " +
         std::to_string(task.key.group);
}

std::variant<TaskGraph, ProgramFault> build_task_graph(const Program& program) {
  return Builder(program).build();
}

}  // namespace plansearch
