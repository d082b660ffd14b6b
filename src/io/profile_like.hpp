// SPDX-License-Identifier: Apache-2.0
// A hardware profile that is another machine's with changes. Private to io.
#pragma once

#include "io/raw_value.hpp"

namespace plansearch::io {

/// The profile `own` says, and where it says nothing what `base` does, except its name, aliases and
/// description. Tiers go by name: keys of a tier of the same name replace those of the base, other
/// tiers are added behind it. The provenance of both is kept, that of `own` first; every statement
/// is about values of its own file (FieldLog).
[[nodiscard]] RawValue profile_like(const RawValue& base, RawValue own);

}  // namespace plansearch::io
