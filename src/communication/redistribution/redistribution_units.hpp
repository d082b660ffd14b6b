// SPDX-License-Identifier: Apache-2.0
// The pattern of two layouts, layouts of the names that it leaves out, and the cost of an element
// that moves along units of the pattern. Not installed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "communication/redistribution/redistribution.hpp"
#include "communication/redistribution/redistribution_pattern.hpp"
#include "communication/slices/layout.hpp"

namespace plansearch {

/// Few: every digit is a unit. Many: factors that stay side by side count as one.
enum class PathFactors : std::uint8_t { Few, Many };

/// Keeps its buffers from one pair of layouts to the next.
class RedistributionUnits {
 public:
  /// Both layouts must be plain and outlive the calls below.
  void set(const TensorMove& move, PathFactors factors);
  [[nodiscard]] const RedistributionPattern& pattern() const { return pattern_; }
  /// Elements of the tensor per element of the pattern.
  [[nodiscard]] double scale() const { return scale_; }
  [[nodiscard]] Layout layout(const LayoutState& state) const;
  [[nodiscard]] AxisSet axes(std::uint32_t units) const;

 private:
  struct Unit {
    SliceDigits digits;
    AxisSet axes;
  };
  /// Where a factor cuts a layout.
  struct Place {
    int dim = -1;
    std::size_t digit = 0;
    [[nodiscard]] bool next_to(const Place& other) const {
      return dim == other.dim && (dim < 0 || other.digit == digit + 1);
    }
  };
  using Places = std::array<Place, kAxisCount>;

  void add_dimensions();
  void find_places(const Layout& layout, Places& places) const;
  [[nodiscard]] bool stay_together(const SliceDigit& first, const SliceDigit& second) const;
  [[nodiscard]] LayoutCuts encode(std::size_t dim, const SliceDigits& digits);
  int number_of(const SliceDigits& digits);
  void add_part(Axis axis, std::array<int, 2>& together);
  void add_parts();
  void finish();

  const DeviceMesh* mesh_ = nullptr;
  const Layout* from_ = nullptr;
  const Layout* to_ = nullptr;
  PathFactors factors_ = PathFactors::Few;
  FixedVector<SliceMap, kMaxTensorRank> shared_;  ///< what both begin with, by dimension
  AxisSet shared_axes_;
  FixedVector<int, kMaxTensorRank> dims_;  ///< that differ
  Places places_from_{};
  Places places_to_{};
  std::vector<Unit> units_;
  RedistributionPattern pattern_;
  double scale_ = 1.0;
};

/// As multiples of what it costs when all units are gathered together; 1 without rates.
class UnitRates {
 public:
  /// Takes the rates of a pattern of few units; `steps` may be null.
  void set(const RedistributionUnits& units, const StepRates* steps);
  [[nodiscard]] double operator()(CommunicationKind kind, std::uint32_t units) const {
    if (rates_.empty()) return 1.0;
    return rates_[std::size_t{units} << kKindBits | static_cast<std::size_t>(kind)];
  }
  /// All of them.
  void put(std::string& bytes) const;
  /// The rates of units by new names.
  [[nodiscard]] UnitRates renamed(const UnitNames& names) const;

 private:
  static constexpr std::size_t kKindBits = 3;
  std::vector<double> rates_;  ///< by units and kind
};

}  // namespace plansearch
