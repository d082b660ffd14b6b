// SPDX-License-Identifier: Apache-2.0
// Tensors that frameworks can keep in memory of the host.
#pragma once

#include <vector>

#include "plansearch/framework.hpp"
#include "plansearch/layer_module.hpp"

namespace plansearch {

/// The part of these tensors that the framework cannot keep there.
[[nodiscard]] HostBits kept_on_device(const Framework& framework, HostBits tensors);

/// Activations and modules: what layers keep. States and their messages depend on the others.
inline constexpr HostBits kKeptByLayers = kHostSets - 4;

/// Sets of optimizer states, parameters and activations that it can, the fewest first; not the
/// empty one, nor modules by name.
[[nodiscard]] std::vector<HostBits> host_choices(const Framework& framework);

}  // namespace plansearch
