// SPDX-License-Identifier: Apache-2.0
#include "exchange/traces/execution_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

// enum NodeType
constexpr std::uint64_t kComputation = 4, kSend = 5, kReceive = 6, kCollective = 7;

// message AttributeProto: members of its value
constexpr std::uint32_t kInt32 = 7, kInt64 = 9, kBool = 27, kText = 29;

/// enum CollectiveCommType
std::uint64_t collective_type(CommunicationKind kind) {
  switch (kind) {
    case CommunicationKind::AllGather:
      return 2;
    case CommunicationKind::AllToAll:
      return 6;
    case CommunicationKind::ReduceScatter:
      return 7;
    default:
      return 0;  // all-reduce
  }
}

std::string attribute(std::string_view name, std::uint32_t member, std::uint64_t value) {
  WireWriter attribute;
  attribute.bytes(1, name);
  attribute.chosen(member, value);
  return attribute.text();
}
std::string attribute(std::string_view name, std::string_view value) {
  WireWriter attribute;
  attribute.bytes(1, name);
  attribute.bytes(kText, value);
  return attribute.text();
}

std::uint64_t rounded(double value) {
  return static_cast<std::uint64_t>(std::llround(std::max(value, 0.0)));
}

/// Tags of rings, behind those of messages between stages.
constexpr std::uint64_t kRingTags = 1U << 30U;

/// message Node.
class NodeWriter {
 public:
  NodeWriter(std::uint64_t id, std::string_view name, std::uint64_t type,
             std::span<const std::uint64_t> after, std::uint64_t microseconds) {
    node_.number(1, id);
    node_.bytes(2, name);
    node_.number(3, type);
    node_.numbers(5, after);
    node_.number(7, microseconds);
    node_.bytes(10, attribute("is_cpu_op", kBool, 0));
  }
  void add(const std::string& attribute) { node_.bytes(10, attribute); }
  void message(int from, int to, std::uint64_t tag, Bytes bytes) {
    add(attribute("comm_src", kInt32, static_cast<std::uint64_t>(from)));
    add(attribute("comm_dst", kInt32, static_cast<std::uint64_t>(to)));
    add(attribute("comm_tag", kInt32, tag));
    add(attribute("comm_size", kInt64, rounded(bytes.value())));
  }
  /// Messages of a file stand behind their length.
  void append_to(std::string& out) const {
    WireWriter length;
    length.varint(node_.text().size());
    out += length.text();
    out += node_.text();
  }

 private:
  WireWriter node_;
};

/// The id of node `index`; of its send where it is two nodes (a ring).
std::uint64_t id_of(std::size_t index) {
  return 2 * static_cast<std::uint64_t>(index) + 2;
}
/// The receive of a ring.
std::uint64_t second_id(std::size_t index) {
  return id_of(index) + 1;
}

}  // namespace

ExecutionTraces::ExecutionTraces(const StepNodes& step, const ParallelPlan& plan,
                                 TraceOrigin origin)
    : step_(step), plan_(plan), origin_(std::move(origin)) {
  places_.resize(static_cast<std::size_t>(plan.devices()));
  for (std::size_t s = 0; s < step.stages.size(); ++s) {
    ranks_.push_back(ranks_of(plan, static_cast<int>(s)));
    for (std::size_t i = 0; i < ranks_.back().size(); ++i) {
      places_[static_cast<std::size_t>(ranks_.back()[i])] = {static_cast<int>(s), i};
    }
  }
  const auto name = [&](std::vector<int> group) {
    groups_.try_emplace(std::move(group), static_cast<int>(groups_.size()) + 1);
  };
  for (std::size_t s = 0; s < step.stages.size(); ++s) {
    std::set<std::pair<std::uint32_t, std::uint32_t>> kinds;
    for (const StepNode& node : step.stages[s]) {
      if (node.kind != StepNode::Kind::Collective) continue;
      if (!kinds.emplace(node.axes.bits(), node.axes.empty() ? node.number : 0).second) continue;
      for (const int rank : ranks_[s]) name(members(node, rank));
    }
  }
}

std::int64_t ExecutionTraces::nodes() const {
  std::int64_t sum = 0;
  for (std::size_t s = 0; s < ranks_.size(); ++s) {
    sum += static_cast<std::int64_t>(ranks_[s].size() * step_.stages[s].size());
  }
  return sum;
}

/// The ranks that a node of this rank speaks of, ascending.
std::vector<int> ExecutionTraces::members(const StepNode& node, int rank) const {
  const Place& place = places_[static_cast<std::size_t>(rank)];
  std::vector<int> all;
  if (node.axes.empty()) {
    for (const int stage : step_.holders[node.number]) {
      all.push_back(ranks_[static_cast<std::size_t>(stage)][place.number]);
    }
    return all;
  }
  const ProcessGroup group = process_group(plan_.transform_at(place.stage).mesh, node.axes);
  int first = rank;
  for (const AxisExtent& extent : group.extents) {
    first -= rank / extent.stride % extent.size * extent.stride;
  }
  all.push_back(first);
  for (const AxisExtent& extent : group.extents) {
    const std::size_t inner = all.size();
    for (int i = 1; i < extent.size; ++i) {
      for (std::size_t k = 0; k < inner; ++k) all.push_back(all[k] + i * extent.stride);
    }
  }
  std::ranges::sort(all);
  return all;
}

std::vector<std::uint64_t> ExecutionTraces::waits(const StepNode& node, int rank) const {
  const Place& place = places_[static_cast<std::size_t>(rank)];
  const auto& nodes = step_.stages[static_cast<std::size_t>(place.stage)];
  std::vector<std::uint64_t> ids;
  for (const std::uint32_t earlier : node.after) {
    const bool ring = nodes[earlier].kind == StepNode::Kind::Ring;
    ids.push_back(ring ? second_id(earlier) : id_of(earlier));
  }
  return ids;
}

std::string ExecutionTraces::name_of(const StepNode& node) const {
  const std::string& name = step_.names[node.name];
  return node.micro_batch < 0 ? name : fmt::format("m{} {}", node.micro_batch, name);
}

void ExecutionTraces::write_ring(const StepNode& node, std::size_t index, int rank,
                                 std::string& out) const {
  const std::vector<int> group = members(node, rank);
  const auto own = static_cast<std::size_t>(std::ranges::find(group, rank) - group.begin());
  const int next = group[(own + 1) % group.size()];
  const int before = group[(own + group.size() - 1) % group.size()];
  const std::vector<std::uint64_t> after = waits(node, rank);
  const auto move = [&](std::uint64_t id, std::uint64_t type, int from, int to) {
    NodeWriter writer(id, name_of(node), type, after, rounded(node.time.value() * 1e6));
    writer.message(from, to, kRingTags + index, node.bytes);
    writer.append_to(out);
  };
  move(id_of(index), kSend, rank, next);
  move(second_id(index), kReceive, before, rank);
}

void ExecutionTraces::write_node(const StepNode& node, std::size_t index, int rank,
                                 std::uint64_t microseconds, std::string& out) const {
  using Kind = StepNode::Kind;
  const Place& place = places_[static_cast<std::size_t>(rank)];
  const auto write = [&](std::uint64_t type, const auto& add) {
    NodeWriter writer(id_of(index), name_of(node), type, waits(node, rank), microseconds);
    add(writer);
    writer.append_to(out);
  };
  switch (node.kind) {
    case Kind::Kernels:
      return write(kComputation, [](NodeWriter&) {});
    case Kind::Ring:
      return write_ring(node, index, rank, out);
    case Kind::Send:
    case Kind::Receive: {
      const int other = ranks_[static_cast<std::size_t>(node.stage)][place.number];
      const bool sends = node.kind == Kind::Send;
      return write(sends ? kSend : kReceive, [&](NodeWriter& writer) {
        writer.message(sends ? rank : other, sends ? other : rank, node.number, node.bytes);
      });
    }
    case Kind::Collective: {
      const std::vector<int> group = members(node, rank);
      const bool gathers = node.how == CommunicationKind::AllGather;
      const double ranks = gathers ? static_cast<double>(group.size()) : 1.0;
      return write(kCollective, [&](NodeWriter& writer) {
        writer.add(attribute("comm_type", kInt64, collective_type(node.how)));
        writer.add(attribute("comm_size", kInt64, rounded(node.bytes.value() / ranks)));
        writer.add(attribute("pg_name", fmt::format("{}", groups_.at(group))));
      });
    }
  }
}

std::string ExecutionTraces::metadata(int rank) const {
  WireWriter metadata;
  metadata.bytes(1, "1.0.0");
  metadata.bytes(2, attribute("generator", origin_.version));
  metadata.bytes(2, attribute("question", origin_.question));
  metadata.bytes(2, attribute("rank", kInt32, static_cast<std::uint64_t>(rank)));
  WireWriter length;
  length.varint(metadata.text().size());
  return length.text() + metadata.text();
}

void ExecutionTraces::write(int rank, const std::function<void(std::string_view)>& append) const {
  constexpr std::size_t kPiece = 1U << 16U;
  const Place& place = places_[static_cast<std::size_t>(rank)];
  const auto& nodes = step_.stages[static_cast<std::size_t>(place.stage)];
  std::string out = metadata(rank);
  double exact = 0.0, written = 0.0;  // of kernels: whole microseconds that add up
  OccasionalStop stop(1024);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    stop.check();
    const double own = nodes[i].time.value() * 1e6;
    std::uint64_t microseconds = rounded(own);
    if (nodes[i].kind == StepNode::Kind::Kernels) {
      exact += own;
      microseconds = rounded(exact - written);
      written += static_cast<double>(microseconds);
    }
    write_node(nodes[i], i, rank, microseconds, out);
    if (out.size() < kPiece) continue;
    append(out);
    out.clear();
  }
  append(out);
}

std::string ExecutionTraces::groups() const {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  std::vector<const std::vector<int>*> by_name(groups_.size());
  for (const auto& [ranks, name] : groups_) by_name[static_cast<std::size_t>(name) - 1] = &ranks;
  for (std::size_t i = 0; i < by_name.size(); ++i) all[fmt::format("{}", i + 1)] = *by_name[i];
  return all.dump() + "\n";
}

}  // namespace plansearch
