// SPDX-License-Identifier: Apache-2.0
#include "base/units.hpp"
#include "io/model/graph/block_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/names.hpp"
#include "io/model/graph/graph_words.hpp"
#include "workload/network_edges.hpp"

namespace plansearch::io {
namespace {

constexpr IntegerRange kCopies{0, 10'000};
constexpr std::int64_t kMostCopies = 10'000;
constexpr std::size_t kMostEdges = 4'000;

std::optional<std::size_t> place_of(const std::vector<std::string>& names,
                                    const std::string& name) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<std::size_t>(found - names.begin());
}

/// A hint for a wrong name: the most similar known name, otherwise all of them.
std::string near(const std::string& name, std::string_view what,
                 const std::vector<std::string>& known) {
  std::string hint = did_you_mean(name, known);
  if (!hint.empty()) return hint;
  return known.empty() ? fmt::format("{} nothing", what)
                       : fmt::format("{} {}", what, fmt::join(known, ", "));
}

/// "block.tensor", of copy n of the block "block:n.tensor".
struct EndText {
  std::string block;
  std::optional<std::int64_t> copy;
  std::string tensor;
};

EndText end_text(const Node& node) {
  const std::string text = node.text();
  const std::size_t dot = text.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == text.size()) {
    node.fail(fmt::format("'{}' is not an end of an edge", text),
              "write BLOCK.TENSOR, or BLOCK:COPY.TENSOR");
  }
  EndText end{text.substr(0, dot), std::nullopt, text.substr(dot + 1)};
  const std::size_t colon = end.block.find(':');
  if (colon == std::string::npos) return end;
  const std::string number = end.block.substr(colon + 1);
  const auto copy = parse_as<std::int64_t>(number);
  if (!copy || *copy < 0) {
    node.fail(fmt::format("'{}' is not the number of a copy", number), "copies count from 0");
  }
  end.copy = copy;
  end.block.resize(colon);
  return end;
}

class Joiner {
 public:
  Joiner(const Node& root, const std::vector<GraphBlock>& blocks, Network& network)
      : root_(root),
        blocks_(blocks),
        network_(network),
        left_out_(blocks_left_out(root.at("order"))) {
    for (const GraphBlock& block : blocks) names_.push_back(block.block.name);
  }

  void run() {
    read_order();
    if (const auto edges = root_.find("edges")) {
      for (const Node& edge : edges->items()) read_edge(edge);
    }
    for (std::size_t p = 0; p < copies_.size(); ++p) join(p);
    for (std::size_t b = 0; b < blocks_.size(); ++b) check_read(b);
    if (network_.forwards > 1) check_return();
    if (network_.edges.size() > kMostEdges) {
      root_.fail(fmt::format("more than {} edges", kMostEdges));
    }
  }

 private:
  [[nodiscard]] std::size_t block_named(const Node& at, const std::string& name) const {
    const auto place = place_of(names_, name);
    if (!place) at.fail(fmt::format("there is no block '{}'", name), did_you_mean(name, names_));
    return *place;
  }

  void read_order() {
    for (const Node& item : root_.at("order").items()) {
      BlockRun run;
      if (item.is_map()) {
        if (left_out_.contains(item.at("block").text())) continue;
        run.block = block_named(item, item.at("block").text());
        if (const auto copies = item.find("copies")) run.count = copies->integer(kCopies);
      } else {
        run.block = block_named(item, item.text());
      }
      if (run.count == 0) continue;
      if (static_cast<std::int64_t>(copies_.size()) + run.count > kMostCopies) {
        item.fail(fmt::format("more than {} copies of blocks", kMostCopies));
      }
      network_.order.push_back(run);
      copies_.insert(copies_.end(), static_cast<std::size_t>(run.count), run.block);
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      if (positions(b).empty()) {
        throw InputError(blocks_[b].where,
                         fmt::format("block '{}' is not in the order", names_[b]));
      }
    }
  }

  [[nodiscard]] std::vector<std::int64_t> positions(std::size_t block) const {
    std::vector<std::int64_t> found;
    for (std::size_t p = 0; p < copies_.size(); ++p) {
      if (copies_[p] == block) found.push_back(static_cast<std::int64_t>(p));
    }
    return found;
  }

  /// Positions of the copies that an end names.
  [[nodiscard]] std::vector<std::int64_t> copies_at(const Node& node, const EndText& end,
                                                    std::size_t block) const {
    std::vector<std::int64_t> all = positions(block);
    if (!end.copy) return all;
    if (*end.copy >= static_cast<std::int64_t>(all.size())) {
      node.fail(fmt::format("{} has {} copies, counted from 0", end.block, all.size()));
    }
    return {all[static_cast<std::size_t>(*end.copy)]};
  }

  void read_edge(const Node& node) {
    const Node from_node = node.at("from");
    const Node to_node = node.at("to");
    const EndText from = end_text(from_node);
    const EndText to = end_text(to_node);
    if (left_out_.contains(from.block) || left_out_.contains(to.block)) return;
    const std::size_t maker = block_named(from_node, from.block);
    const std::size_t reader = block_named(to_node, to.block);
    const auto output = place_of(blocks_[maker].outputs, from.tensor);
    if (!output) {
      from_node.fail(fmt::format("{} hands out no '{}'", from.block, from.tensor),
                     near(from.tensor, "it hands out", blocks_[maker].outputs));
    }
    const auto input = place_of(blocks_[reader].inputs, to.tensor);
    if (!input) {
      to_node.fail(fmt::format("{} reads no '{}'", to.block, to.tensor),
                   near(to.tensor, "it reads", blocks_[reader].inputs));
    }
    const std::vector<std::int64_t> makers = copies_at(from_node, from, maker);
    if (makers.size() != 1) {
      from_node.fail(fmt::format("{} has {} copies", from.block, makers.size()),
                     fmt::format("say which: {}:0.{}", from.block, from.tensor));
    }
    check_dims(node, maker, *output, reader, *input);
    for (const std::int64_t position : copies_at(to_node, to, reader)) {
      add_edge(node, {makers.front(), *output, position, 1, *input});
    }
  }

  /// Whether a position reads something of the one in front of it, by name.
  [[nodiscard]] bool reads_front(std::size_t position) const {
    const std::vector<std::string>& inputs = blocks_[copies_[position]].inputs;
    const std::vector<std::string>& outputs = blocks_[copies_[position - 1]].outputs;
    return std::ranges::any_of(
        inputs, [&](const std::string& name) { return place_of(outputs, name).has_value(); });
  }

  /// The fewest positions over which something gets from one to another, both included; empty where
  /// nothing does. Joins lead forward.
  [[nodiscard]] std::vector<std::size_t> path(std::size_t from, std::size_t to) const {
    std::vector<std::optional<std::size_t>> before(to + 1);
    std::vector<std::size_t> steps(to + 1, to + 1);
    steps[from] = 0;
    const auto reach = [&](std::size_t maker, std::size_t reader) {
      if (steps[maker] > to || steps[maker] + 1 >= steps[reader]) return;
      steps[reader] = steps[maker] + 1;
      before[reader] = maker;
    };
    for (std::size_t p = from + 1; p <= to; ++p) {
      if (reads_front(p)) reach(p - 1, p);
      for (const Edge& edge : network_.edges) {
        const auto place = static_cast<std::int64_t>(p);
        const auto maker = static_cast<std::size_t>(edge.from);
        if (maker >= from && edge.to <= place && place < edge.to + edge.readers) reach(maker, p);
      }
    }
    if (steps[to] > to) return {};
    std::vector<std::size_t> found{to};
    while (found.back() != from) found.push_back(*before[found.back()]);
    std::ranges::reverse(found);
    return found;
  }

  /// An edge against the order: the shortest cycle that it closes.
  [[noreturn]] void refuse_back(const Node& at, const Edge& edge) const {
    const auto name = [&](std::size_t position) { return names_[copies_[position]]; };
    const auto from = static_cast<std::size_t>(edge.from);
    const auto to = static_cast<std::size_t>(edge.to);
    const std::vector<std::size_t> on = path(to, from);
    if (on.empty()) {
      at.fail(fmt::format("{} stands in front of {} in the order, which makes what it reads",
                          name(to), name(from)),
              fmt::format("put {} in front of {}", name(from), name(to)));
    }
    std::string cycle = name(from);
    for (const std::size_t position : on) cycle += " -> " + name(position);
    at.fail(fmt::format("the edge closes a cycle: {}", cycle),
            "a block reads what blocks before it have made: take one of these edges out");
  }

  void add_edge(const Node& at, Edge edge) {
    if (edge.to <= edge.from) refuse_back(at, edge);
    if (edge_to(edge.to, edge.input) != nullptr) {
      at.fail(fmt::format("two edges lead to one input of the block at position {}", edge.to));
    }
    Edge* last = network_.edges.empty() ? nullptr : &network_.edges.back();
    const bool next = last != nullptr && last->from == edge.from && last->output == edge.output &&
                      last->input == edge.input && last->to + last->readers == edge.to;
    if (next) {
      ++last->readers;
    } else {
      network_.edges.push_back(edge);
    }
  }

  [[nodiscard]] const Edge* edge_to(std::int64_t position, std::size_t input) const {
    for (const Edge& edge : network_.edges) {
      if (edge.input == input && edge.to <= position && position < edge.to + edge.readers) {
        return &edge;
      }
    }
    return nullptr;
  }

  /// Inputs of the copy at a position: along an edge, by name from the copy in front, or outside.
  void join(std::size_t position) {
    const GraphBlock& reader = blocks_[copies_[position]];
    const GraphBlock* front = position > 0 ? &blocks_[copies_[position - 1]] : nullptr;
    for (std::size_t i = 0; i < reader.inputs.size(); ++i) {
      if (edge_to(static_cast<std::int64_t>(position), i) != nullptr) continue;
      const auto output = front != nullptr ? place_of(front->outputs, reader.inputs[i])
                                           : std::optional<std::size_t>();
      if (output) {
        check_dims(root_, copies_[position - 1], *output, copies_[position], i);
        taken_.insert({copies_[position - 1], *output});
        if (*output == i) continue;
        const auto here = static_cast<std::int64_t>(position);
        add_edge(root_, {here - 1, *output, here, 1, i});
        continue;
      }
      check_outside(reader, front, i);
    }
  }

  /// The next forward pass of a micro-batch begins with what the one before has made.
  void check_return() const {
    const Node at = root_.at("forwards");
    const auto last = returning_block(network_);
    if (!last) at.fail("no block hands out anything that the next pass could begin with");
    const Block& first = blocks_[copies_.front()].block;
    const Block& from = blocks_[*last].block;
    for (std::size_t i = 0; i < first.inputs.size(); ++i) {
      const Tensor& read = first.tensor(first.inputs[i]);
      const bool there = i < from.outputs.size() && from.tensor(from.outputs[i]).dims == read.dims;
      if (there) continue;
      at.fail(fmt::format("the next pass begins with {}.{}, and {}, the last block with results, "
                          "hands out no such tensor in place {}",
                          first.name, read.name, from.name, i + 1),
              "results of the last block are the inputs of the first, in the same sequence");
    }
  }

  void check_outside(const GraphBlock& reader, const GraphBlock* front, std::size_t input) const {
    const std::string& name = reader.block.tensor(reader.block.inputs[input]).name;
    if (front != nullptr && !reader.outside.contains(name)) {
      std::string hint = did_you_mean(reader.inputs[input], front->outputs);
      if (hint.empty()) hint = "draw an edge, or write outside: true at an input of the network";
      throw InputError(
          reader.where,
          fmt::format("nobody makes '{}' of {}: the block in front, {}, hands out {}", name,
                      reader.block.name, front->block.name, fmt::join(front->outputs, ", ")),
          hint);
    }
    // By its place it would be taken for a result of the block in front.
    if (front != nullptr && input < front->outputs.size()) {
      throw InputError(
          reader.where,
          fmt::format("'{}' of {} comes from outside: list it behind the {} tensors of "
                      "the block in front",
                      name, reader.block.name, front->outputs.size()));
    }
  }

  void check_dims(const Node& at, std::size_t maker, std::size_t output, std::size_t reader,
                  std::size_t input) const {
    const Block& from = blocks_[maker].block;
    const Block& to = blocks_[reader].block;
    const Tensor& made = from.tensor(from.outputs[output]);
    const Tensor& read = to.tensor(to.inputs[input]);
    if (made.dims == read.dims) return;
    const auto text = [&](const Tensor& tensor) {
      std::vector<std::string> names;
      for (const DimId id : tensor.dims) names.push_back(network_.dimension(id).name);
      return fmt::format("[{}]", fmt::join(names, ", "));
    };
    at.fail(fmt::format("{} makes {}{} (line {}), {} reads it as {}{} (line {})", from.name,
                        made.name, text(made), blocks_[maker].where.line, to.name, read.name,
                        text(read), blocks_[reader].where.line),
            "dimensions agree at both ends of an edge");
  }

  /// An output that no copy of anything reads is a slip, except the network's results.
  void check_read(std::size_t block) const {
    for (std::size_t o = 0; o < blocks_[block].outputs.size(); ++o) {
      const bool leads = std::ranges::any_of(network_.edges, [&](const Edge& edge) {
        return copies_[static_cast<std::size_t>(edge.from)] == block && edge.output == o;
      });
      if (leads || taken_.contains({block, o}) || block == copies_.back()) continue;
      throw InputError(
          blocks_[block].where,
          fmt::format("nobody reads '{}' of {}", blocks_[block].outputs[o], names_[block]),
          "take it out of 'out', or draw an edge");
    }
  }

  const Node& root_;
  const std::vector<GraphBlock>& blocks_;
  Network& network_;
  std::set<std::string> left_out_;
  std::vector<std::string> names_;
  std::vector<std::size_t> copies_;                      ///< block by position
  std::set<std::pair<std::size_t, std::size_t>> taken_;  ///< outputs read along the chain
};

}  // namespace

std::set<std::string> blocks_left_out(const Node& order) {
  std::set<std::string> without;
  std::set<std::string> with;
  for (const Node& item : order.items()) {
    const auto copies = item.is_map() ? item.find("copies") : std::nullopt;
    const bool none = copies && copies->is_scalar() && copies->text() == "0";
    (none ? without : with).insert(item.is_map() ? item.at("block").text() : item.text());
  }
  for (const std::string& name : with) without.erase(name);
  return without;
}

void join_blocks(const Node& root, const std::vector<GraphBlock>& blocks, Network& network) {
  Joiner(root, blocks, network).run();
}

}  // namespace plansearch::io
