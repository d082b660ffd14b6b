// SPDX-License-Identifier: Apache-2.0
// Fitted speed of the collectives of one link tier.
#pragma once

#include "plansearch/base/quantity.hpp"

namespace plansearch {

struct LinkCurve {};

}  // namespace plansearch
