// SPDX-License-Identifier: Apache-2.0
#include "plansearch/provenance.hpp"

#include <array>

namespace plansearch {
namespace {

constexpr std::array<std::string_view, 4> kNames = {"measured", "published", "datasheet",
                                                    "assumed"};

}  // namespace

std::string_view to_text(Evidence evidence) {
  return kNames.at(static_cast<std::size_t>(evidence));
}

std::optional<Evidence> parse_evidence(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames.at(i) == text) return static_cast<Evidence>(i);
  }
  return std::nullopt;
}

}  // namespace plansearch
