// SPDX-License-Identifier: Apache-2.0
// The wire format of protocol buffers (protobuf.dev/programming-guides/encoding), field by field.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace plansearch::io {

/// One field of a message: a number, or bytes (text, a message inside, packed numbers).
struct WireField {
  std::uint32_t number = 0;
  bool is_bytes = false;
  std::uint64_t value = 0;  ///< of numbers; floats as their bits
  std::string_view bytes;
};

/// A number of fixed width.
[[nodiscard]] std::uint64_t little_endian(std::string_view bytes);

/// Walks a message; what is not asked for is skipped without being copied.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  /// The next field; nothing at the end, or where the message is damaged.
  [[nodiscard]] std::optional<WireField> next();
  /// The next number without a field; nothing where the message is damaged.
  [[nodiscard]] std::optional<std::uint64_t> varint();
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] bool damaged() const { return damaged_; }

 private:
  std::string_view rest_;
  bool damaged_ = false;
};

/// Packed numbers, or one that stands by itself; false where they are damaged.
[[nodiscard]] bool append_numbers(const WireField& field, std::vector<std::int64_t>& list);

}  // namespace plansearch::io
