// SPDX-License-Identifier: Apache-2.0
// What the system says of its processor.
#pragma once

#include <string>

namespace plansearch::calibrate {

[[nodiscard]] std::string processor_name();
/// Of the widest cache that the system describes.
[[nodiscard]] double cache_bytes();
[[nodiscard]] double physical_bytes();

}  // namespace plansearch::calibrate
