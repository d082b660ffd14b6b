// SPDX-License-Identifier: Apache-2.0
// The loops of the stream probe, compiled for speed whatever the build is for.
#pragma once

#include <cstddef>
#include <string_view>

namespace plansearch::calibrate {

/// `read` holds as many arrays of `count` floats as the pass reads and does not write, `written`
/// those that it writes, one behind the other.
using MemoryPass = void (*)(const float* read, float* written, std::size_t count,
                            std::size_t stride);

/// Null for an unknown name. The stride lies between the starts of two arrays.
[[nodiscard]] MemoryPass memory_pass(std::string_view name);

}  // namespace plansearch::calibrate
