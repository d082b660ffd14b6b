// SPDX-License-Identifier: Apache-2.0
// The strategies behind the name of a space.
#pragma once

#include <string_view>

#include "plansearch/framework.hpp"

namespace plansearch {

/// Whether a space cuts operators of the tensor group one by one, so that its degree is not judged
/// by the roles of dimensions.
[[nodiscard]] bool cuts_one_by_one(std::string_view space, const Framework& framework);

}  // namespace plansearch
