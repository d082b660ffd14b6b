// SPDX-License-Identifier: Apache-2.0
#include "base/printable.hpp"

#include <fmt/format.h>

namespace plansearch {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

/// Bytes of the control character there: of ASCII, or U+0080 to U+009F in UTF-8. 0: none.
std::size_t control_length(std::string_view text, std::size_t at) {
  const unsigned byte = byte_at(text, at);
  if (byte < 0x20 || byte == 0x7F) return 1;
  const unsigned next = byte_at(text, at + 1);
  return byte == 0xC2 && next >= 0x80 && next < 0xA0 ? 2 : 0;
}

bool continues_a_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

std::string escaped(std::string_view text) {
  std::string shown;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t control = control_length(text, i);
    for (std::size_t k = 0; k < control; ++k)
      shown += fmt::format("\\x{:02x}", byte_at(text, i + k));
    if (control == 0) shown += text[i];
    i += control > 0 ? control : 1;
  }
  return shown;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  if (text.size() <= most) return escaped(text);
  // Whole characters from the front and the back.
  std::size_t front = most * 2 / 3;
  std::size_t back = text.size() - (most - front);
  while (front > 0 && continues_a_character(text[front])) --front;
  while (back < text.size() && continues_a_character(text[back])) ++back;
  return fmt::format("{} ... ({} bytes left out) ... {}", escaped(text.substr(0, front)),
                     back - front, escaped(text.substr(back)));
}

std::size_t find_control(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool blank = text[i] == '\t' || text[i] == '\n' || text[i] == '\r';
    if (!blank && control_length(text, i) > 0) return i;
  }
  return std::string_view::npos;
}

}  // namespace plansearch
