// SPDX-License-Identifier: Apache-2.0
// The single collectives that change a layout of plain cuts; not installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "communication/redistribution/redistribution_pattern.hpp"

namespace plansearch {

/// Where cuts and parts of a sum go: to where the goal has them, those it begins with stay; or
/// anywhere.
enum class Landing : std::uint8_t { AtGoal, Anywhere };

/// Shows every layout that one step makes of another.
class LayoutMoves {
 public:
  LayoutMoves() = default;
  LayoutMoves(const LayoutMoves&) = delete;
  LayoutMoves& operator=(const LayoutMoves&) = delete;

 protected:
  ~LayoutMoves() = default;
  /// The pattern must outlive the calls below.
  void set(const RedistributionPattern& pattern, Landing landing);
  void expand(const LayoutState& here);

 private:
  virtual void reach(const WayMove& move, const LayoutState& after) = 0;

  [[nodiscard]] std::uint32_t landing(std::size_t dim) const;
  void reduce_partials();
  void reduce(std::uint32_t units);
  void remove_cuts(std::size_t dim);
  void remove_cuts(std::size_t dim, int count);
  void slice(std::size_t dim);
  void permute();
  [[nodiscard]] bool is_blocked() const;
  void put_in_order();
  [[nodiscard]] int loose_slices(std::size_t dim) const;
  void rearrange(LayoutState& state, std::size_t dim, int left, std::uint32_t loose);
  void push_permutation(const LayoutState& after);
  void push(const WayMove& move);

  const RedistributionPattern* pattern_ = nullptr;
  bool directed_ = false;
  LayoutState here_;
  std::uint32_t held_ = 0;  ///< units that cut it
  LayoutState kept_;        ///< what stays of it
};

}  // namespace plansearch
