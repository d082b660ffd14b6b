// SPDX-License-Identifier: Apache-2.0
// Files that are read while they come, however large.
#pragma once

#include <filesystem>
#include <functional>
#include <string_view>

namespace plansearch::io {

/// Hands over the bytes of a file, or of standard input for "-". Failures are those of read_file.
void for_each_piece(const std::filesystem::path& path,
                    const std::function<void(std::string_view)>& take);

}  // namespace plansearch::io
