// SPDX-License-Identifier: Apache-2.0
// The cheapest sequence of single collectives between two layouts of plain cuts; not installed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "communication/redistribution.hpp"

namespace plansearch {

/// Whether digits may take part in one collective: one digit, or factors of one tensor group.
[[nodiscard]] bool one_group(const SliceDigit* first, const SliceDigit* last);
/// Digits that two cuts begin with alike.
[[nodiscard]] std::size_t common_prefix(const SliceDigits& a, const SliceDigits& b);

/// Keeps its buffers from one search to the next.
class RedistributionSearch {
 public:
  /// Appends the steps. Both layouts are plain and have the same flat cut; parts that `to` has,
  /// `from` has too.
  void run(const DeviceMesh& mesh, std::span<const double> extents, const Layout& from,
           const Layout& to, std::vector<RedistributionStep>& steps);

 private:
  /// A layout whose digits are numbers of `digits_`, one byte each, the outermost first.
  struct State {
    std::array<std::uint64_t, kMaxTensorRank> dims{};
    std::uint32_t partial = 0;
    bool operator==(const State&) const = default;
    [[nodiscard]] std::size_t hash() const;
  };
  struct Step {
    CommunicationKind kind = CommunicationKind::Slice;
    AxisSet axes;
    int group_size = 1;
    double elements = 0.0;
    int from_dim = -1;
    int to_dim = -1;
  };
  struct Node {
    State state;
    double cost = 0.0;
    std::uint32_t parent = 0;
    bool settled = false;
    Step step;
  };
  struct Digit {
    SliceDigit digit;
    Axis axis{};
    bool full = false;  ///< as many slices as ranks
  };
  struct Open {
    double cost;
    std::uint32_t node;
  };

  [[nodiscard]] State encode(const Layout& layout);
  [[nodiscard]] Layout decode(const State& state) const;
  [[nodiscard]] std::uint8_t number_of(const SliceDigit& digit);
  [[nodiscard]] const Digit& digit(std::uint64_t dim, int place) const;
  [[nodiscard]] AxisSet axes_of(std::uint64_t dim) const;
  [[nodiscard]] int slices_of(std::uint64_t dim) const;
  [[nodiscard]] double local_elements(const State& state) const;
  void expand(std::uint32_t node);
  void reduce_partials();
  void reduce(AxisSet axes);
  void remove_cuts(std::size_t dim);
  void remove_cuts(std::size_t dim, int count);
  void reorder(std::size_t dim);
  void slice(std::size_t dim);
  void push(const State& state, const Step& step);
  [[nodiscard]] std::uint32_t* place_of(const State& state);
  void grow();
  void trace(std::uint32_t node, std::vector<RedistributionStep>& steps) const;

  const DeviceMesh* mesh_ = nullptr;
  std::span<const double> extents_;
  std::size_t rank_ = 0;
  const Layout* from_ = nullptr;
  State to_;
  std::vector<Digit> digits_;
  std::vector<Node> nodes_;
  std::vector<Open> open_;             ///< a heap; entries of nodes that got cheaper are stale
  std::vector<std::uint32_t> places_;  ///< nodes by hash of their state, from 1; 0: none
  std::uint32_t here_number_ = 0;      ///< the node that is expanded
  State here_;
  double local_ = 0.0;
  AxisSet here_axes_;
};

}  // namespace plansearch
