// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/names.hpp"
#include "io/framework/framework_parts.hpp"

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

/// The sum over kernels.
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

}  // namespace

OperatorTable read_operators(const Document& document) {
  const Node root = document.root();
  require_schema(root, "plansearch/operators/v1");
  OperatorTable table;
  for (const Node::Entry& entry : root.at("operators").entries()) {
    auto& known = table.known[operator_index(entry)];
    for (const Node::Entry& way : entry.value.entries()) {
      known.emplace(way.key, read_passes(way.value));
    }
  }
  root.finish();
  return table;
}

void read_operator_choices(const Node& map, OperatorTable& table) {
  if (const auto all = map.find("all")) {
    const std::string set = all->text();
    const auto& sets = implementation_sets();
    if (std::find(sets.begin(), sets.end(), set) == sets.end()) {
      all->fail(fmt::format("unknown set of implementations '{}'", set),
                fmt::format("one of {}", fmt::join(sets, ", ")));
    }
    choose_set(table, set);
  }
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
    table.chosen[i] = name;
  }
}

}  // namespace plansearch::io
