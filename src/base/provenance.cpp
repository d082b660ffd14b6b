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

}  // namespace plansearch
