// SPDX-License-Identifier: Apache-2.0
// Whose runs an answer is for: the same plan on the same machine takes longer in one laboratory
// than in another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plansearch {

/// A step of the site takes `factor` times what kernels, messages and their order take.
struct SiteEffect {
  std::string name = "tuned";
  double factor = 1.0;
  double spread = 0.0;   ///< standard deviation of ln(factor): how far it may be off
  double scatter = 0.0;  ///< of ln(measured / predicted) among the site's own runs; 0: not known
  std::string basis{};   ///< what the factor rests on, in words
  std::vector<double> parts{};  ///< factors of the parts of a step besides; empty: none differs
  bool operator==(const SiteEffect&) const = default;
};

/// A site as a profile carries it: fitted to the user's own runs.
struct FittedSite {
  SiteEffect effect;
  std::string framework;  ///< that the runs used; it holds for no other
  bool operator==(const FittedSite&) const = default;
};

/// Whether those who measured make what they measured on.
enum class SiteKind : std::uint8_t { Laboratory, Vendor };

/// Published runs of one laboratory on one machine.
struct MeasuredSite {
  std::string name;
  std::string laboratory;
  SiteKind kind = SiteKind::Laboratory;
  std::vector<std::string> sources{};   ///< texts, one of which the source of its rows holds
  std::vector<std::string> hardware{};  ///< profiles of its rows; empty: any
  int rows = 0;
  double factor = 1.0;  ///< median of measured over predicted step times
  double spread = 0.0;  ///< standard deviation of ln(measured / predicted) about it

  /// Whether a row of that source on that profile is one of its runs.
  [[nodiscard]] bool holds(std::string_view source, std::string_view profile) const;
};

using SiteTable = std::vector<MeasuredSite>;

/// Names that stand for no laboratory.
inline constexpr std::string_view kTypicalSite = "typical";
inline constexpr std::string_view kTunedSite = "tuned";
inline constexpr std::string_view kVendorSite = "vendor";          ///< typical of vendors' own
inline constexpr std::string_view kLaboratorySite = "laboratory";  ///< typical of all others

}  // namespace plansearch
