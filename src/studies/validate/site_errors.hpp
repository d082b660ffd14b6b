// SPDX-License-Identifier: Apache-2.0
// Errors of step times by what is known of the site: its own runs, nothing, or nothing and its
// laboratory in no fit of sites.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "studies/validate/run_prediction.hpp"
#include "studies/validate/run_record.hpp"
#include "studies/validate/statistics.hpp"

namespace plansearch {

enum class SiteView : std::uint8_t { Own, Typical, LeftOut };
inline constexpr std::size_t kSiteViewCount = 3;
[[nodiscard]] std::string_view to_text(SiteView view);
/// "own_site", "typical", "left_out": in files.
[[nodiscard]] std::string_view key_of(SiteView view);

/// Means over groups of rows, every group weighed alike.
struct AlikeSummary {
  std::size_t groups = 0;
  double mean = 0.0;           ///< of the groups' mean absolute errors
  double median = 0.0;         ///< of the same
  double bias = 0.0;           ///< mean of the groups' biases
  double within = 0.0;         ///< mean of the shares inside p10 .. p90
  double rarely_inside = 0.0;  ///< share of groups of whose rows less than 40 % are inside
};

struct SiteErrors {
  ErrorSummary errors;
  std::size_t within = 0;  ///< measured steps inside p10 .. p90
  AlikeSummary by_source;
  AlikeSummary by_site;  ///< of sites with at least kFewestSiteRows rows
};
inline constexpr std::size_t kFewestSiteRows = 5;

/// Of rows with a measured and a predicted time.
[[nodiscard]] std::array<SiteErrors, kSiteViewCount> summarise_sites(
    const std::vector<RunRecord>& runs, const std::vector<RunPrediction>& predictions,
    std::span<const std::size_t> rows);

}  // namespace plansearch
