// SPDX-License-Identifier: Apache-2.0
// The software of chips (plansearch/chips/v1). The format is documented in docs/frameworks.md.
#pragma once

#include <filesystem>

#include "plansearch/chip_software.hpp"

namespace plansearch::io {

/// InputError for anything wrong in the file, with its place.
[[nodiscard]] ChipSoftwareTable read_chip_software(const std::filesystem::path& path);

}  // namespace plansearch::io
