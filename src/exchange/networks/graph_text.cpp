// SPDX-License-Identifier: Apache-2.0
#include "exchange/networks/graph_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "exchange/networks/block_cutter.hpp"
#include "exchange/networks/block_text.hpp"
#include "exchange/networks/dimension_roles.hpp"
#include "io/model/graph/graph_words.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::io {
namespace {

/// A tensor that a block reads, and which block in front of it makes it.
struct DraftArrival {
  DraftId tensor = 0;
  std::size_t from = 0;
};

class GraphTextWriter {
 public:
  GraphTextWriter(const ImportedGraph& graph, Draft draft)
      : graph_(graph),
        draft_(std::move(draft)),
        roles_(dimension_roles(draft_)),
        segments_(cut_blocks(draft_)),
        names_(draft_.axes, roles_) {}

  std::string run() {
    check();
    find_arrivals();
    name_ports();
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      for (const auto& [port, id] : ports_[s].in) make_outer(id);
      for (const auto& [port, id] : ports_[s].out) make_outer(id);
    }
    count_parameters();
    for (std::size_t s = 0; s < segments_.size(); ++s) add_block(s);
    return fmt::format(
        "{{\"schema\": \"{}\", \"name\": \"{}\", \"source\": \"{}\", \"dims\": {{\n{}}},\n"
        "\"blocks\": {{\n{}}},\n\"order\": [{}],\n\"edges\": [{}]}}\n",
        kGraphSchema, plain_name(graph_.name), source(), names_.text(), fmt::join(blocks_, ",\n"),
        fmt::join(order_texts(), ", "), fmt::join(edge_texts(), ",\n"));
  }

 private:
  void check() const {
    if (draft_.results.empty() || segments_.empty()) {
      graph_.fail("the network hands out nothing that is computed",
                  "export a module that returns a loss or its predictions");
    }
    if (!draft_.axes.batch()) {
      graph_.fail("the network has no input with a batch",
                  "export it with example inputs [batch, ...]");
    }
    if (draft_.axes.leaves({*draft_.axes.batch()}).size() != 1) {
      graph_.fail("an operator divides the batch", "export it with a batch of 1");
    }
  }

  [[nodiscard]] std::string source() const {
    std::string text;
    for (const char c : graph_.source) text += c == '"' || c == '\\' ? '_' : c;
    return text;
  }

  void make_outer(DraftId id) {
    for (const AtomId atom : draft_.axes.leaves(draft_.tensors[id].dims)) names_.make_outer(atom);
  }

  /// Tensors from outside enter the first block, which passes them on.
  void find_arrivals() {
    std::map<DraftId, std::size_t> made;
    arrivals_.resize(segments_.size());
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      for (const DraftId id : segments_[s].operators) {
        for (const DraftId tensor : draft_.operators[id].made) made[tensor] = s;
      }
    }
    std::set<DraftId> outside;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      std::set<DraftId> seen;
      for (const DraftId id : segments_[s].operators) {
        for (const DraftRead& read : draft_.operators[id].reads) {
          const auto maker = made.find(read.tensor);
          if (maker == made.end()) outside.insert(read.tensor);
          const std::size_t from = maker == made.end() ? 0 : maker->second;
          if (from != s && seen.insert(read.tensor).second)
            arrivals_[s].push_back({read.tensor, from});
        }
      }
    }
    for (const DraftId id : draft_.inputs) {
      if (outside.contains(id)) outside_.push_back(id);
    }
  }

  /// Tensors from the previous block are called p0, p1, ... on both sides; edges join the others,
  /// from q0, q1, ... to e0, e1, ...
  void name_ports() {
    ports_.resize(segments_.size());
    for (std::size_t i = 0; i < outside_.size(); ++i) {
      ports_[0].in.emplace_back(fmt::format("in{}", i), outside_[i]);
    }
    for (std::size_t s = 1; s < segments_.size(); ++s) {
      std::size_t chain = 0;
      for (const DraftArrival& arrival : arrivals_[s]) {
        if (arrival.from + 1 != s) continue;
        const std::string port = fmt::format("p{}", chain++);
        ports_[s].in.emplace_back(port, arrival.tensor);
        ports_[s - 1].out.emplace_back(port, arrival.tensor);
      }
    }
    for (std::size_t s = 1; s < segments_.size(); ++s) {
      std::size_t edges = 0;
      for (const DraftArrival& arrival : arrivals_[s]) {
        if (arrival.from + 1 == s) continue;
        const std::string port = fmt::format("e{}", edges++);
        ports_[s].in.emplace_back(port, arrival.tensor);
        edges_.push_back({arrival.from, out_port(arrival.from, arrival.tensor), s, port});
      }
    }
  }

  [[nodiscard]] std::string out_port(std::size_t segment, DraftId tensor) {
    auto& out = ports_[segment].out;
    for (const auto& [port, id] : out) {
      if (id == tensor) return port;
    }
    const auto is_edge = [](const auto& port) { return port.first.front() == 'q'; };
    out.emplace_back(fmt::format("q{}", std::count_if(out.begin(), out.end(), is_edge)), tensor);
    return out.back().first;
  }

  void count_parameters() {
    for (const DraftSegment& segment : segments_) {
      for (const DraftId id : segment.operators) {
        for (const DraftParameter& parameter : draft_.operators[id].parameters) {
          ++uses_[parameter.value];
          const bool looked_up = draft_.operators[id].row->cost == CostClass::LookUp;
          if (looked_up) tables_.insert(parameter.value);
        }
      }
    }
  }

  /// Numbered modules are layers; the first and the last block stand around them.
  [[nodiscard]] std::string_view kind(std::size_t segment) const {
    if (!segments_[segment].module.empty() || segments_.size() == 1) return "layer";
    if (segment == 0) return "embedding";
    return segment + 1 == segments_.size() ? "head" : "other";
  }

  [[nodiscard]] std::string block_name(std::size_t segment) const {
    std::string path = segments_[segment].module;
    if (path.empty())
      return segment == 0 ? "enter" : segment + 1 == segments_.size() ? "leave" : "between";
    path.resize(path.find_last_not_of("0123456789") + 1);
    path.resize(path.find_last_not_of("._") + 1);
    std::string name = path.empty() ? "layer" : plain_name(path);
    std::replace(name.begin(), name.end(), '.', '_');
    return name;
  }

  void add_block(std::size_t segment) {
    const BlockTextContext context{graph_, draft_, names_, uses_, tables_};
    const std::string text =
        block_text(context, segments_[segment], ports_[segment], kind(segment));
    const auto [known, is_new] = numbers_.try_emplace(text, blocks_.size());
    if (is_new) {
      const std::string name = block_name(segment);
      std::string unique = name;
      for (int i = 2; !block_names_.insert(unique).second; ++i)
        unique = fmt::format("{}-{}", name, i);
      titles_.push_back(unique);
      blocks_.push_back(fmt::format("\"{}\": {}", unique, text));
    }
    copies_.push_back({known->second, count_[known->second]++});
  }

  [[nodiscard]] std::vector<std::string> order_texts() const {
    std::vector<std::string> texts;
    for (std::size_t s = 0; s < copies_.size();) {
      std::size_t end = s;
      while (end < copies_.size() && copies_[end].first == copies_[s].first) ++end;
      texts.push_back(
          fmt::format("{{\"block\": \"{}\", \"copies\": {}}}", titles_[copies_[s].first], end - s));
      s = end;
    }
    return texts;
  }

  [[nodiscard]] std::string copy_text(std::size_t segment) const {
    const auto [block, copy] = copies_[segment];
    if (count_.at(block) == 1) return titles_[block];
    return fmt::format("{}:{}", titles_[block], copy);
  }

  [[nodiscard]] std::vector<std::string> edge_texts() const {
    std::vector<std::string> texts;
    for (const auto& [from, out, to, in] : edges_) {
      texts.push_back(fmt::format("{{\"from\": \"{}.{}\", \"to\": \"{}.{}\"}}", copy_text(from),
                                  out, copy_text(to), in));
    }
    return texts;
  }

  const ImportedGraph& graph_;
  Draft draft_;
  std::map<AtomId, DimRole> roles_;
  std::vector<DraftSegment> segments_;
  DimensionNames names_;
  std::vector<std::vector<DraftArrival>> arrivals_;
  std::vector<DraftId> outside_;
  std::vector<BlockPorts> ports_;
  std::vector<std::tuple<std::size_t, std::string, std::size_t, std::string>> edges_;
  std::map<ImportedId, std::size_t> uses_;
  std::set<ImportedId> tables_;
  std::vector<std::string> blocks_;
  std::vector<std::string> titles_;
  std::set<std::string> block_names_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<std::pair<std::size_t, std::size_t>> copies_;  ///< by segment: block, and which of it
  std::map<std::size_t, std::size_t> count_;
};

}  // namespace

std::string graph_text(const ImportedGraph& graph, Draft draft) {
  return GraphTextWriter(graph, std::move(draft)).run();
}

}  // namespace plansearch::io
