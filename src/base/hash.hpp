// SPDX-License-Identifier: Apache-2.0
// Content hashes (the same bytes give the same 64 bits on every machine and in every release) and keys of maps as bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plansearch {

/// FNV-1a over the bytes, finished with a mixing step. Not for security.
[[nodiscard]] std::uint64_t content_hash(std::string_view bytes);

/// Hash of a hash and one more value, in order.
[[nodiscard]] std::uint64_t combine_hashes(std::uint64_t first, std::uint64_t second);

/// Sixteen lower-case hexadecimal digits.
[[nodiscard]] std::string hash_text(std::uint64_t hash);

/// Appends a value without padding as it lies in memory.
template <typename T>
void put_bytes(std::string& key, T value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

}  // namespace plansearch
