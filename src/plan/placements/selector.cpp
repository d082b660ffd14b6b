// SPDX-License-Identifier: Apache-2.0
#include "plan/placements/selector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/names.hpp"
#include "plan/stages/layer_distribution.hpp"

namespace plansearch {

constexpr std::string_view kForms = "\"*\", BLOCK, BLOCK/OPERATOR or */OPERATOR";

bool holds(const std::vector<LayerRange>& ranges, std::int64_t number) {
  return std::ranges::any_of(ranges, [&](const LayerRange& range) {
    return range.first <= number && number <= range.last;
  });
}

void add_number(std::vector<LayerRange>& ranges, std::int64_t number) {
  if (!ranges.empty() && ranges.back().last + 1 == number) {
    ranges.back().last = number;
  } else {
    ranges.push_back({number, number});
  }
}

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0;
  std::size_t n = 0;
  std::size_t star = std::string_view::npos;  // the last one, and what it stands for so far
  std::size_t taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::vector<BlockCopy> block_copies(const Network& network) {
  std::vector<BlockCopy> copies;
  std::map<std::string, std::int64_t> seen;
  std::int64_t layer = 0;
  for (const BlockRun& run : network.order) {
    const Block& block = network.blocks[run.block];
    std::int64_t& number = seen[plain_block_name(block.name)];
    const bool counted = is_layer(block.kind);
    for (std::int64_t i = 0; i < run.count; ++i) {
      BlockCopy& copy = copies.emplace_back(BlockCopy{run.block, std::nullopt, number++});
      if (counted) copy.layer = layer++;
    }
  }
  return copies;
}

bool selects(std::string_view selector, const Block& block, const Operator& op) {
  const std::size_t slash = selector.find('/');
  if (!matches(selector.substr(0, slash), plain_block_name(block.name))) return false;
  return slash == std::string_view::npos || matches(selector.substr(slash + 1), op.name);
}

bool selects(std::span<const std::string> selectors, const Block& block, const Operator& op) {
  return std::ranges::any_of(
      selectors, [&](const std::string& selector) { return selects(selector, block, op); });
}

bool selects_copy(const Selection& selection, const BlockCopy& copy) {
  if (!selection.copies.empty() && !holds(selection.copies, copy.number)) return false;
  return selection.layers.empty() || (copy.layer && holds(selection.layers, *copy.layer));
}

std::optional<EntryFault> check_selection(const Selection& selection, const Network& network) {
  for (const std::string& selector : selection.of) {
    std::vector<std::string> known;
    bool found = false;
    for (const Block& block : network.blocks) {
      for (const Operator& op : block.operators) {
        found = found || selects(selector, block, op);
        known.push_back(block.name + "/" + op.name);
      }
      known.push_back(block.name);
    }
    if (found) continue;
    std::string hint = did_you_mean(selector, known);
    if (hint.empty()) hint = kForms;
    return EntryFault{fmt::format("'{}' selects no operator of {}", selector, network.name),
                      std::move(hint)};
  }
  const std::int64_t layers = layer_count(network);
  for (const LayerRange& range : selection.layers) {
    if (range.last < layers) continue;
    return EntryFault{
        fmt::format("layers {}-{} are not in {}", range.first, range.last, network.name),
        fmt::format("its layers are 0-{}", layers - 1)};
  }
  return std::nullopt;
}

std::vector<Selection> selections_of(std::span<const std::size_t> places, const Network& network) {
  const std::vector<BlockCopy> copies = block_copies(network);
  if (places.size() == copies.size()) return {{.of = {"*"}}};
  Selection layers{.of = {"*"}};
  std::map<std::string, std::vector<LayerRange>> others;
  std::map<std::string, std::int64_t> missing;  // copies of blocks beside layers that are not meant
  const auto name_of = [&](const BlockCopy& copy) {
    return plain_block_name(network.blocks[copy.block].name);
  };
  for (const BlockCopy& copy : copies) {
    if (!copy.layer) ++missing[name_of(copy)];
  }
  for (const std::size_t place : places) {
    const BlockCopy& copy = copies[place];
    if (copy.layer) {
      add_number(layers.layers, *copy.layer);
    } else {
      add_number(others[name_of(copy)], copy.number);
      --missing[name_of(copy)];
    }
  }
  std::vector<Selection> selections;
  Selection whole;
  for (const auto& [name, numbers] : others) {
    if (missing[name] == 0) {
      whole.of.push_back(name);
    } else {
      selections.push_back({.of = {name}, .copies = numbers});
    }
  }
  if (!whole.of.empty()) selections.push_back(std::move(whole));
  if (!layers.layers.empty()) selections.push_back(std::move(layers));
  return selections;
}

}  // namespace plansearch
