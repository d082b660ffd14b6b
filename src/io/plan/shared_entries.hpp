// SPDX-License-Identifier: Apache-2.0
// Which entries of `assign:` lie on the devices of all stages.
#pragma once

#include "io/document/document.hpp"

namespace plansearch::io {

[[nodiscard]] bool is_shared(const Node& entry);
/// Whether all entries of the list, at least one, do.
[[nodiscard]] bool all_shared(const Node& assign);

}  // namespace plansearch::io
