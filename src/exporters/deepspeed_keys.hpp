// SPDX-License-Identifier: Apache-2.0
// The keys of DeepSpeed's configuration that Megatron-DeepSpeed needs too.
#pragma once

#include <vector>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

[[nodiscard]] std::vector<Key> deepspeed_keys();

}  // namespace plansearch::exporters
