// SPDX-License-Identifier: Apache-2.0
// What it takes to bring a tensor from one layout to another, for very many pairs of layouts. Pairs
// that differ in the names of their factors alone have one way: it is looked for once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "communication/layout_paths.hpp"
#include "communication/tensor_layouts.hpp"

namespace plansearch {

/// A tensor that moves: messages of equal subjects are priced alike.
struct MovedTensor {
  std::uint32_t subject = 0;  ///< a number for its elements in all and what one of them costs
  std::vector<double> extents{};
  std::function<Seconds(const PathStep& step, AxisSet axes)> price{};
};

struct Move {
  double length = 0.0;  ///< length_of
  Seconds time;
  Seconds again;  ///< what a reader repeats in backward that reads it again
};

/// On one mesh.
class MovePrices {
 public:
  explicit MovePrices(const DeviceMesh& mesh);

  /// The same layout with its number.
  [[nodiscard]] NumberedLayout numbered(Layout layout);
  /// Both have numbers from here.
  [[nodiscard]] Move price(const MovedTensor& tensor, const NumberedLayout& from,
                           const NumberedLayout& to, ReadsAgain reader);

 private:
  /// What one factor does in a layout: the places at which it stands, as a number; 0: none.
  using Roles = std::array<std::uint16_t, kMostFactors>;
  struct Known {
    Roles roles{};
    std::array<std::uint8_t, kMostFactors> order{};  ///< factors by their roles
    std::uint16_t frame = 0;                         ///< what other axes do
  };
  /// What the factors do at both ends, sorted. The order of parts counts: ways of equal length are
  /// told apart by it.
  struct Key {
    std::array<std::uint32_t, kMostFactors> roles{};
    std::uint32_t frames = 0;
    std::uint32_t subject = 0;
    bool operator==(const Key&) const = default;
    [[nodiscard]] std::size_t hash() const;
  };
  using Order = std::array<std::uint8_t, kMostFactors>;
  struct Step {
    PathStep step;              ///< axes: those that are no factors
    std::uint32_t factors = 0;  ///< by their places in the key
    std::size_t prices = 0;     ///< where those of its sizes begin, by factors
  };
  struct Way {
    Key key;
    double length = 0.0;
    std::uint32_t first = 0;  ///< of `steps_`
    std::uint32_t last = 0;
    std::uint32_t again = 0;             ///< first step that readers repeat always,
    std::uint32_t again_in_context = 0;  ///< and those of other context ranks
  };

  [[nodiscard]] std::uint16_t role(const std::string& places);
  [[nodiscard]] Known describe(const Layout& layout);
  [[nodiscard]] std::size_t find(const Key& key);
  void add_way(const Key& key, const Order& order, const MovedTensor& tensor,
               const NumberedLayout& from, const NumberedLayout& to);
  [[nodiscard]] Seconds sum(std::uint32_t first, std::uint32_t last, const Order& order,
                            const MovedTensor& tensor);

  const DeviceMesh& mesh_;
  std::size_t factors_ = 0;
  LayoutPaths paths_;
  std::map<std::string, std::uint16_t> numbers_;  ///< of roles and frames
  std::vector<Known> known_;                      ///< by number of the layout
  std::vector<std::uint32_t> places_;             ///< ways by hash of their key, from 1; 0: none
  std::vector<Way> ways_;
  std::vector<Step> steps_;
  std::map<std::string, std::size_t> sizes_;  ///< first price of equal messages
  std::vector<double> prices_;                ///< negative: not asked for so far
};

}  // namespace plansearch
