// SPDX-License-Identifier: Apache-2.0
#include "exchange/networks/wire_reader.hpp"

namespace plansearch::io {

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) {
    value = value << 8U | static_cast<unsigned char>(bytes[i]);
  }
  return value;
}

std::optional<std::uint64_t> WireReader::varint() {
  constexpr std::size_t kLongest = 10;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kLongest && i < rest_.size(); ++i) {
    const auto byte = static_cast<unsigned char>(rest_[i]);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << (7 * i);
    if ((byte & 0x80U) != 0) continue;
    rest_.remove_prefix(i + 1);
    return value;
  }
  damaged_ = true;
  return std::nullopt;
}

std::optional<WireField> WireReader::next() {
  if (rest_.empty() || damaged_) return std::nullopt;
  const auto key = varint();
  if (!key) return std::nullopt;
  WireField field;
  field.number = static_cast<std::uint32_t>(*key >> 3U);
  const auto type = static_cast<unsigned>(*key & 7U);
  std::optional<std::uint64_t> length;
  if (type == 0 || type == 2) length = varint();
  if (type == 1) length = 8;
  if (type == 5) length = 4;
  if (!length || (type != 0 && *length > rest_.size())) {
    damaged_ = true;
    return std::nullopt;
  }
  if (type == 0) {
    field.value = *length;
    return field;
  }
  field.bytes = rest_.substr(0, *length);
  rest_.remove_prefix(*length);
  field.is_bytes = type == 2;
  if (!field.is_bytes) field.value = little_endian(field.bytes);
  return field;
}

bool append_numbers(const WireField& field, std::vector<std::int64_t>& list) {
  if (!field.is_bytes) {
    list.push_back(static_cast<std::int64_t>(field.value));
    return true;
  }
  // Packed numbers are written like the values of fields: each behind the key of a field 1.
  WireReader packed(field.bytes);
  while (!packed.at_end()) {
    const auto value = packed.varint();
    if (!value) return false;
    list.push_back(static_cast<std::int64_t>(*value));
  }
  return true;
}

}  // namespace plansearch::io
