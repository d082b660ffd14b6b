// SPDX-License-Identifier: Apache-2.0
// The keys of DeepSpeed's configuration that Megatron-DeepSpeed needs too.
#pragma once

#include <vector>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

[[nodiscard]] std::vector<Key> deepspeed_keys();
inline constexpr Setting kOffload = setting_of(plansearch::Setting::Offload);
inline constexpr Setting kMainGradients = setting_of(plansearch::Setting::MainGradients);

}  // namespace plansearch::exporters
