// SPDX-License-Identifier: Apache-2.0
// Published figures of a paper beside those of this program, checked against bands that were set
// before.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

/// One figure. Absent bounds do not bind; without any the figure is reported, not checked.
struct ReproducedRow {
  std::string check;
  std::string unit;  ///< empty: a number by itself
  std::optional<double> published;
  std::optional<double> predicted;  ///< absent: no plan, or not to be had here
  std::optional<double> low;
  std::optional<double> high;
  std::string source;

  /// Absent where nothing is checked; false where there is nothing to check.
  [[nodiscard]] std::optional<bool> within() const;
};

struct StudyContext {
  const ShippedData& data;
  int threads = 1;
};

/// One paper or system.
struct ReproducedSeed {
  std::string_view name;
  std::string_view summary;
  std::vector<ReproducedRow> (*rows)(const StudyContext& context);
};
[[nodiscard]] const std::vector<ReproducedSeed>& reproduced_seeds();

/// The seed of that name, or all of them for an empty one, as an answer. InputError for a name that
/// no seed has.
[[nodiscard]] std::string reproduce(std::string_view seed, const StudyContext& context,
                                    Format format, int columns);

}  // namespace plansearch
