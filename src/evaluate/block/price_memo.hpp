// SPDX-License-Identifier: Apache-2.0
// Prices that one thread has computed already, by value: the same kernel shapes and messages come
// back under many placements.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace plansearch {

/// Everything a price depends on.
struct PriceKey {
  std::uint64_t owner = 0;  ///< whose constants and machine
  std::uint64_t what = 0;   ///< kind of kernel or collective
  std::array<double, 8> numbers{};
  bool operator==(const PriceKey&) const = default;

  /// Products that do not wait for each other: this runs once per kernel and message.
  [[nodiscard]] std::size_t hash() const noexcept {
    std::uint64_t sum = owner * 0x9E3779B97F4A7C15ULL + what * 0xC2B2AE3D27D4EB4FULL;
    std::uint64_t factor = 0xFF51AFD7ED558CCDULL;
    for (const double number : numbers) {
      const auto bits = std::bit_cast<std::uint64_t>(number);
      sum += (bits ^ bits >> 29U) * factor;
      factor += 0xD6E8FEB86659FD92ULL;
    }
    return static_cast<std::size_t>(sum ^ sum >> 32U);
  }
};

/// A table of fixed size in which a new price displaces the old one of its place. Not thread-safe:
/// every thread has its own. Prices follow from their keys, so results do not depend on it.
template <typename Value>
class PriceMemo {
 public:
  template <typename Make>
  Value get(const PriceKey& key, Make make) {
    Entry& entry = entries_[key.hash() % kEntries];
    if (!(entry.key == key)) {
      entry.value = make();
      entry.key = key;
    }
    return entry.value;
  }

 private:
  struct Entry {
    PriceKey key;
    Value value{};
  };
  static constexpr std::size_t kEntries = 4096;
  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
};

}  // namespace plansearch
