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

  [[nodiscard]] std::size_t hash() const noexcept {
    std::uint64_t mixed = owner * 0x9E3779B97F4A7C15ULL ^ what;
    for (const double number : numbers) {
      mixed = (mixed ^ std::bit_cast<std::uint64_t>(number)) * 0xFF51AFD7ED558CCDULL;
      mixed ^= mixed >> 32U;
    }
    return static_cast<std::size_t>(mixed);
  }
};

/// A table of fixed size in which a new price displaces the old one of its place. Not thread-safe:
/// every thread has its own. Prices follow from their keys, so nobody can tell who computed one.
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
