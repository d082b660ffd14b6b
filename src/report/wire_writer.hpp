// SPDX-License-Identifier: Apache-2.0
// Messages in the wire format of protocol buffers (protobuf.dev/programming-guides/encoding).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plansearch {

/// One message, field by field. Fields at their default are left out, as proto3 does.
class WireWriter {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    if (value == 0) return;
    chosen(field, value);
  }
  /// The same of a member of a oneof, which says by its presence which one it is.
  void chosen(std::uint32_t field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3U);
    varint(value);
  }
  void bytes(std::uint32_t field, std::string_view value) {
    varint((std::uint64_t{field} << 3U) | 2U);
    varint(value.size());
    text_ += value;
  }
  /// Packed.
  void numbers(std::uint32_t field, std::span<const std::uint64_t> values) {
    if (values.empty()) return;
    WireWriter packed;
    for (const std::uint64_t value : values) packed.varint(value);
    bytes(field, packed.text());
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) text_ += static_cast<char>((value & 0x7fU) | 0x80U);
    text_ += static_cast<char>(value);
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace plansearch
