// SPDX-License-Identifier: Apache-2.0
// Where a number comes from. Every field of a profile carries one.
#pragma once

#include <string>
#include <string_view>

namespace plansearch {

/// How far a number can be trusted, best first.
enum class Evidence { Measured, Published, Datasheet, Assumed };

struct Provenance {
  Evidence evidence = Evidence::Assumed;
  std::string source;  ///< document, repository@commit, or the rule by which it was derived
  bool operator==(const Provenance&) const = default;
};

/// "measured", "published", "datasheet", "assumed".
[[nodiscard]] std::string_view to_text(Evidence evidence);

}  // namespace plansearch
