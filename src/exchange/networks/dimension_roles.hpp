// SPDX-License-Identifier: Apache-2.0
// Which part every dimension of an imported network plays: by what operators do with it, never by
// what anything is called.
#pragma once

#include <map>

#include "exchange/networks/draft.hpp"

namespace plansearch::io {

/// Roles by atom, after all operators have been read; atoms that are left out are `Other`.
/// Marks the operators of attention cores and norms as parts of a layer, too.
[[nodiscard]] std::map<AtomId, DimRole> dimension_roles(Draft& draft);

}  // namespace plansearch::io
