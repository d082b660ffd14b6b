// SPDX-License-Identifier: Apache-2.0
// What it takes to bring a tensor from one layout to another, for very many pairs of layouts. Pairs
// that differ in the names of their factors alone have one way: it is looked for once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "communication/derive/tensor_layouts.hpp"
#include "communication/redistribution/layout_paths.hpp"

namespace plansearch {

/// A tensor that moves: messages of equal subjects are priced alike.
struct ReshardedTensor {
  std::uint32_t subject = 0;  ///< a small number for its elements in all and what one of them costs
  std::vector<double> extents{};
  std::function<Seconds(CommunicationKind kind, AxisSet axes, double elements)> price{};
};

struct ReshardingCost {
  double length = 0.0;  ///< length_of, in shares of the tensor
  double time = 0.0;    ///< seconds
  double again = 0.0;   ///< what a reader repeats in backward that reads it again
};

/// From each of some layouts to each of others, or from each to its own.
struct ReshardingCosts {
  std::vector<double> lengths;
  std::vector<double> times;
  std::vector<double> again;  ///< empty: nobody reads it again
};
enum class Pairs : std::uint8_t { All, OneToOne };

/// What is known of the layouts of one mesh and of the ways between them.
struct KnownWays {
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
    bool operator==(const Key&) const = default;
    [[nodiscard]] std::size_t hash() const;
  };
  using Order = std::array<std::uint8_t, kMostFactors>;
  /// Ways by hash of their key.
  struct Place {
    std::size_t hash = 0;
    std::uint32_t way = 0;  ///< from 1; 0: none
  };
  /// A message over factors by their places in the key.
  struct Step {
    std::uint32_t factors = 0;
    std::uint32_t size = 0;  ///< of `sizes_`
  };
  /// Messages that differ in their factors alone.
  struct Size {
    CommunicationKind kind = CommunicationKind::Slice;
    AxisSet axes;        ///< that are no factors
    double share = 0.0;  ///< of the tensor
    bool operator==(const Size&) const = default;
  };
  struct Way {
    Key key;
    double length = 0.0;
    std::uint32_t first = 0;  ///< of `steps_`
    std::uint32_t last = 0;
    std::uint32_t again = 0;             ///< first step that readers repeat always,
    std::uint32_t again_in_context = 0;  ///< and those of other context ranks
  };

  DeviceMesh mesh_;
  std::size_t factors_ = 0;
  LayoutNumbers layouts_;
  std::map<std::tuple<double, WireClass, int>, std::uint32_t> subjects_;
  std::map<std::string, std::uint16_t> numbers_;  ///< of roles and frames
  std::vector<Known> known_{1};                   ///< by number of the layout
  std::vector<Place> places_;
  std::vector<Way> ways_;
  std::vector<Step> steps_;
  std::vector<Size> sizes_;
  std::vector<std::vector<double>> prices_;  ///< by subject; by size and factors, below 0: not yet
};

/// On one mesh, for all blocks, micro-batches and policies of parameters.
class ReshardingPrices : KnownWays {
 public:
  explicit ReshardingPrices(const DeviceMesh& mesh);
  /// What the other knows of layouts and ways; tables of costs are made anew.
  ReshardingPrices(const ReshardingPrices& other) : KnownWays(other) {}
  ReshardingPrices& operator=(const ReshardingPrices&) = delete;

  /// Nothing that was priced for tables is asked for again.
  void forget_tables() { tables_.clear(); }

  /// The same layout with its number.
  [[nodiscard]] NumberedLayout numbered(Layout layout);
  /// A number for tensors of so many elements, messages of which cost the same by their size.
  [[nodiscard]] std::uint32_t subject(double elements, WireClass wire, int sequences);
  /// Both have numbers from here.
  [[nodiscard]] ReshardingCost price(const ReshardedTensor& tensor, const NumberedLayout& from,
                                     const NumberedLayout& to, ReadsAgain reader);
  /// The same for many; tensors of one subject between the same layouts share it. Lives as long as
  /// these prices. Throws Stopped.
  using Layouts = std::vector<const NumberedLayout*>;
  [[nodiscard]] const ReshardingCosts& price_all(const ReshardedTensor& tensor, const Layouts& from,
                                                 const Layouts& to, Pairs pairs, ReadsAgain reader);

 private:
  [[nodiscard]] std::uint16_t role(const std::string& places);
  [[nodiscard]] Known describe(const Layout& layout);
  [[nodiscard]] Place& find(const Key& key, std::size_t hash);
  void grow();
  void add_way(const Key& key, const Order& order, const ReshardedTensor& tensor,
               const NumberedLayout& from, const NumberedLayout& to);
  [[nodiscard]] double sum(std::uint32_t first, std::uint32_t last, const Order& order,
                           const ReshardedTensor& tensor);
  [[nodiscard]] double price_of(const Size& size, std::uint32_t factors,
                                const ReshardedTensor& tensor);

  [[nodiscard]] ReshardingCosts priced(const ReshardedTensor& tensor, const Layouts& from,
                                       const Layouts& to, Pairs pairs, ReadsAgain reader);

  RedistributionScratchPtr scratch_ = make_redistribution_scratch(Remember::Yes);
  std::vector<RedistributionStep> found_;
  Path path_;
  std::map<std::vector<std::uint32_t>, ReshardingCosts> tables_;
};

}  // namespace plansearch
