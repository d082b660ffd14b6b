// SPDX-License-Identifier: Apache-2.0
// Characters of UTF-8 (RFC 3629): no overlong forms, no halves of surrogate pairs, none above
// U+10FFFF.
#pragma once

#include <cstddef>
#include <string_view>

namespace plansearch {

/// Bytes of the character at the start of `text`, which is not empty; 0 when it is malformed.
[[nodiscard]] inline std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  const unsigned char next = byte(1);
  const bool overlong = (lead == 0xE0 && next < 0xA0) || (lead == 0xF0 && next < 0x90);
  const bool beyond = (lead == 0xED && next > 0x9F) || (lead == 0xF4 && next > 0x8F);
  return overlong || beyond ? 0 : length;
}

}  // namespace plansearch
