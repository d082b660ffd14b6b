// SPDX-License-Identifier: Apache-2.0
// Optimizer states and parameters in memory of the host: what a device leaves to the CPU once per
// step. Fetches of every pass: evaluate/block/host_copies.cpp.
#pragma once

#include "evaluate/step/pricing_input.hpp"

namespace plansearch {

/// Nothing, where states and parameters are on the device (`tensors`). `count`: what one rank
/// holds, before sharding.
[[nodiscard]] HostUpdate host_update(const PricingInput& view, const ParameterCount& count,
                                     const ModelStatePolicy& statics, const HostTensors& tensors);

/// The way of gradients to the host that no backward pass hides.
[[nodiscard]] Seconds exposed_copies(const PricingInput& view, const HostUpdate& update,
                                     const PhaseLengths& pass);

}  // namespace plansearch
