// SPDX-License-Identifier: Apache-2.0
// Link curves as profiles spell them out in place.
#pragma once

#include <string>

#include "plansearch/link_curves.hpp"

namespace plansearch::io {

/// The value of `link:` or `fabric:`, on one line.
[[nodiscard]] std::string curve_text(const LinkCurve& curve);

}  // namespace plansearch::io
