// SPDX-License-Identifier: Apache-2.0
// Reads through windows: which places of a tensor a slice of the result needs, and how many of them
// other devices hold.
#pragma once

#include <span>

#include "plansearch/network.hpp"

namespace plansearch {

/// The dimension along which a read moves with the result: of the terms that the operator's first
/// result carries the one with the largest factor. The others are taps.
[[nodiscard]] DimId moving_dimension(const Block& block, const Operator& op,
                                     const IndexExpression& index);

/// One dimension of a tensor that is read through an index, and the dimension of the loop nest that
/// it moves with. Both are cut into as many slices.
struct WindowedRead {
  const IndexExpression& index;
  DimId moving{};
  double extent = 1.0;              ///< of the tensor
  std::span<const double> extents;  ///< of the loop nest, by DimId
};

/// Places of the tensor, end excluded; padding does not count as a place.
struct PlaceRange {
  double begin = 0.0;
  double end = 0.0;
  [[nodiscard]] double size() const { return end - begin; }
  bool operator==(const PlaceRange&) const = default;
};

[[nodiscard]] PlaceRange held_places(const WindowedRead& read, int slices, int slice);
/// The places that slice `slice` of the result reads.
[[nodiscard]] PlaceRange needed_places(const WindowedRead& read, int slices, int slice);
/// Places that a slice needs together with those that it holds, over all slices and of the slice
/// that needs most of other slices.
struct WindowPlaces {
  double all = 0.0;
  double most = 0.0;
  double held = 0.0;  ///< of one slice
};
[[nodiscard]] WindowPlaces window_places(const WindowedRead& read, int slices);

}  // namespace plansearch
