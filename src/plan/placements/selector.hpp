// SPDX-License-Identifier: Apache-2.0
// Which operators and which copies of blocks an entry of a plan file means, by name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

/// `of`: "*", "BLOCK", "BLOCK/OPERATOR" or "*/OPERATOR"; in each part '*' stands for any letters.
struct Selection {
  std::vector<std::string> of{};
  std::vector<LayerRange> layers{};  ///< empty: every layer, and the blocks beside layers
  std::vector<LayerRange> copies{};  ///< of every selected block, counted from 0; empty: all
  bool operator==(const Selection&) const = default;
};

/// The fault of an entry.
struct EntryFault {
  std::string message;
  std::string hint;
  std::size_t entry = 0;
};

/// Whether a number is in some range; adds one behind the last.
[[nodiscard]] bool holds(const std::vector<LayerRange>& ranges, std::int64_t number);
void add_number(std::vector<LayerRange>& ranges, std::int64_t number);

/// One copy of a block on its way through the network.
struct BlockCopy {
  std::size_t block = 0;              ///< index into Network::blocks
  std::optional<std::int64_t> layer;  ///< where the block is a layer
  std::int64_t number = 0;            ///< among the copies of blocks of its plain name
};

/// Whether a name is as a pattern says, in which '*' stands for any letters.
[[nodiscard]] bool matches(std::string_view pattern, std::string_view name);

/// All copies in the order of the network.
[[nodiscard]] std::vector<BlockCopy> block_copies(const Network& network);

[[nodiscard]] bool selects(std::string_view selector, const Block& block, const Operator& op);
[[nodiscard]] bool selects(std::span<const std::string> selectors, const Block& block,
                           const Operator& op);
/// Whether it means the copy by its layer and number; its operators are another matter.
[[nodiscard]] bool selects_copy(const Selection& selection, const BlockCopy& copy);

/// The first selector that means no operator, with the nearest names; or layers that are not there.
[[nodiscard]] std::optional<EntryFault> check_selection(const Selection& selection,
                                                        const Network& network);

/// Selections that together mean these copies (by place in `block_copies`, ascending) and no other.
[[nodiscard]] std::vector<Selection> selections_of(std::span<const std::size_t> places,
                                                   const Network& network);

}  // namespace plansearch
