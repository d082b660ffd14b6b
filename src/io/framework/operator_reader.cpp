// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/fields.hpp"
#include "io/framework/framework_reader.hpp"

namespace plansearch::io {
namespace {

constexpr std::array<Choice<KeptTensors>, 2> kKept{
    {{"fused", KeptTensors::Fused}, {"separate", KeptTensors::Separate}}};
constexpr double kMostPasses = 1000.0;

double passes_or_none(const Node& kernel, std::string_view key) {
  const auto node = kernel.find(key);
  if (!node) return 0.0;
  const double value = node->number();
  if (value < 0.0 || value > kMostPasses) {
    node->fail(fmt::format("{} passes over a tensor", value),
               "one kernel reads and writes each element a few times");
  }
  return value;
}

PassCount read_kernels(const Node& map) {
  PassCount sum;
  for (const Node::Entry& kernel : map.entries()) {
    sum.activation += passes_or_none(kernel.value, "activation");
    sum.single += passes_or_none(kernel.value, "fp32");
    sum.bytes += passes_or_none(kernel.value, "bytes");
  }
  return sum;
}

OperatorPasses read_passes(const Node& node) {
  OperatorPasses passes;
  passes.source = node.at("source").text();
  passes.forward = read_kernels(node.at("forward"));
  passes.backward = read_kernels(node.at("backward"));
  if (const auto chunks = node.find("chunks")) {
    passes.chunks = chunks->text() == "by-width" ? 0.0 : chunks->number();
    if (passes.chunks != 0.0 && (passes.chunks < 1.0 || passes.chunks > kMostPasses)) {
      chunks->fail(fmt::format("{} pieces of the tokens", passes.chunks), "a loss takes 1 to 1000");
    }
  }
  if (const auto multiplies = node.find("multiplies")) passes.multiplies = multiplies->boolean();
  if (passes.chunks == 0.0 && !passes.multiplies) {
    node.fail("chunks: by-width without multiplies: true", "give a number of pieces");
  }
  if (const auto keeps = node.find("keeps")) passes.keeps = keeps->choice<KeptTensors>(kKept);
  return passes;
}

std::size_t operator_index(const Node::Entry& entry) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < kMemoryBoundCount; ++i) {
    names.emplace_back(to_text(static_cast<MemoryBound>(i)));
    if (names.back() == entry.key) return i;
  }
  std::string hint = did_you_mean(entry.key, names);
  if (hint.empty()) hint = fmt::format("the operators are {}", fmt::join(names, ", "));
  throw InputError(entry.where, fmt::format("unknown operator '{}'", entry.key), hint);
}

/// Reads a number above 0, at most 1.
double read_share(const Node& node) {
  const double share = node.positive_number();
  if (share > 1.0) node.fail("must be at most 1: a share of a nominal rate");
  return share;
}

MachineNeed read_need(const Node& node) {
  const Fields fields(node);
  MachineNeed need;
  fields.take("links", need.links, &Node::texts);
  fields.take("fabrics", need.fabrics, &Node::texts);
  fields.take("most_linked", need.most_linked,
              [](const Node& most) { return most.count(1, 1 << 20); });
  fields.with("format", [&](const Node& format) {
    need.format = parse_data_type(format.text());
    if (!need.format) format.fail(fmt::format("'{}' is not a number format", format.text()));
  });
  const int asked =
      static_cast<int>(!need.links.empty()) + static_cast<int>(!need.fabrics.empty()) +
      static_cast<int>(need.most_linked.has_value()) + static_cast<int>(need.format.has_value());
  if (asked != 1) node.fail("a need is one of links, fabrics, most_linked and format");
  need.message = node.at("message").text();
  return need;
}

TokenDispatcher read_dispatcher(const Node::Entry& entry) {
  static constexpr std::array kPaths{Choice<TokenPath>{"pairs", TokenPath::Pairs},
                                     Choice<TokenPath>{"gather", TokenPath::Gather},
                                     Choice<TokenPath>{"nodes", TokenPath::Nodes}};
  TokenDispatcher dispatcher;
  dispatcher.name = entry.key;
  const auto id = find_dispatcher(entry.key);
  if (!id || *id == kOwnDispatcher) {
    const auto& names = dispatcher_names();
    entry.value.fail(fmt::format("'{}' is not a name of a dispatcher", entry.key),
                     fmt::format("one of {}", fmt::join(names.begin() + 1, names.end(), ", ")));
  }
  dispatcher.id = *id;
  dispatcher.path = entry.value.at("path").choice(std::span<const Choice<TokenPath>>(kPaths));
  dispatcher.source = entry.value.at("source").text();
  if (dispatcher.path == TokenPath::Nodes) {
    dispatcher.fabric_share = read_share(entry.value.at("fabric_share"));
    dispatcher.link_share = read_share(entry.value.at("link_share"));
  }
  Fields(entry.value).with("needs", [&](const Node& needs) {
    for (const Node& need : needs.items()) dispatcher.needs.push_back(read_need(need));
  });
  return dispatcher;
}

RoutingKind read_routing_kind(const Node::Entry& entry) {
  const Fields fields(entry.value);
  RoutingKind kind;
  kind.name = entry.key;
  fields.take("aliases", kind.aliases, &Node::texts);
  kind.spread = entry.value.at("spread").number();
  if (!(kind.spread >= 0.0)) entry.value.at("spread").fail("must be at least 0");
  fields.take("dealt", kind.dealt, &Node::boolean);
  kind.source = entry.value.at("source").text();
  return kind;
}

/// Calls take(operator, implementation) for every operator that a map names.
template <typename Take>
void read_names(const Node& map, const OperatorTable& table, Take take) {
  for (std::size_t i = 1; i < kMemoryBoundCount; ++i) {
    const auto node = map.find(to_text(static_cast<MemoryBound>(i)));
    if (!node) continue;
    const std::string name = node->text();
    if (!table.known[i].contains(name)) {
      std::vector<std::string> names;
      for (const auto& [known, passes] : table.known[i]) names.push_back(known);
      node->fail(
          fmt::format("no implementation '{}' of {}", name, to_text(static_cast<MemoryBound>(i))),
          names.empty() ? "the framework names no table (operators:)"
                        : fmt::format("one of {}", fmt::join(names, ", ")));
    }
    take(i, name);
  }
}

}  // namespace

OperatorTable read_operators(const Document& document) {
  const Node root = document.root();
  require_schema(root, "plansearch/operators/v1");
  OperatorTable table;
  for (const Node::Entry& entry : root.at("operators").entries()) {
    auto& known = table.known[operator_index(entry)];
    for (const Node::Entry& passes : entry.value.entries()) {
      known.emplace(passes.key, read_passes(passes.value));
    }
  }
  root.finish();
  return table;
}

void read_operator_choices(const Node& map, OperatorTable& table) {
  if (const auto words = map.find("words")) {
    for (const Node::Entry& word : words->entries()) {
      if (!contains(implementation_sets(), word.key) && !contains(operator_kernels(), word.key)) {
        throw InputError(word.where, fmt::format("'{}' names no implementation", word.key),
                         "the words are those of --implementation and of --kernels");
      }
      auto& meant = table.meant[word.key];
      meant.clear();
      read_names(word.value, table, [&](std::size_t index, const std::string& name) {
        meant.emplace_back(static_cast<MemoryBound>(index), name);
      });
    }
  }
  if (const auto all = map.find("all")) {
    const std::string set = all->text();
    const auto& sets = implementation_sets();
    if (!contains(sets, set)) {
      all->fail(fmt::format("unknown set of implementations '{}'", set),
                fmt::format("one of {}", fmt::join(sets, ", ")));
    }
    choose_set(table, set);
  }
  read_names(map, table,
             [&](std::size_t index, const std::string& name) { table.chosen[index] = name; });
}

void read_dispatchers(const Node& map, const Document& table, Framework& framework) {
  const Node root = table.root();
  require_schema(root, "plansearch/dispatchers/v1");
  std::vector<TokenDispatcher> known;
  std::vector<std::string> names;
  for (const Node::Entry& entry : root.at("dispatchers").entries()) {
    known.push_back(read_dispatcher(entry));
    names.push_back(entry.key);
  }
  framework.routings.clear();
  for (const Node::Entry& entry : root.at("routings").entries()) {
    framework.routings.push_back(read_routing_kind(entry));
  }
  if (framework.routings.empty()) root.at("routings").fail("name at least one kind of routing");
  root.finish();
  framework.drops_tokens = false;
  Fields(map).take("drops_tokens", framework.drops_tokens, &Node::boolean);
  framework.dispatchers.clear();
  for (const Node& item : map.at("known").items()) {
    const std::string name = item.text();
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      item.fail(fmt::format("no dispatcher '{}' in the table", name),
                fmt::format("it has {}", fmt::join(names, ", ")));
    }
    framework.dispatchers.push_back(known[static_cast<std::size_t>(found - names.begin())]);
  }
  if (framework.dispatchers.empty()) map.at("known").fail("name at least one dispatcher");
  framework.dispatcher = framework.dispatchers.front();
}

}  // namespace plansearch::io
