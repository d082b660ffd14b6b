// SPDX-License-Identifier: Apache-2.0
// Files as whole texts. Every failure is an InputError that names the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace plansearch::io {

inline constexpr std::size_t kDefaultSizeLimit = std::size_t{8} << 20U;

/// The bytes of a file. Directories, missing and unreadable files and files above `size_limit`
/// bytes are InputErrors.
[[nodiscard]] std::string read_file(const std::filesystem::path& path,
                                    std::size_t size_limit = kDefaultSizeLimit);

/// Replaces `path` by `content` in one step: the new file is written beside it under a temporary
/// name and renamed, so a failure leaves the old file (or none) and nothing half-written. Devices
/// and pipes (/dev/stdout) are written directly.
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace plansearch::io
