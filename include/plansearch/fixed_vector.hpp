// SPDX-License-Identifier: Apache-2.0
// A vector of at most N plain values that never allocates.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "plansearch/error.hpp"

namespace plansearch {

template <typename T, std::size_t N>
class FixedVector {
  /// Few bytes are copied whole; of more, only those values that are there are made and copied.
  static constexpr bool kWhole = sizeof(T) * N <= 256;

 public:
  constexpr FixedVector() requires kWhole : items_{} {}
  constexpr FixedVector() requires(!kWhole) {}
  constexpr FixedVector(const FixedVector&) requires kWhole = default;
  constexpr FixedVector(const FixedVector& other) requires(!kWhole) { take(other); }
  constexpr FixedVector& operator=(const FixedVector&) requires kWhole = default;
  constexpr FixedVector& operator=(const FixedVector& other) requires(!kWhole) {
    take(other);
    return *this;
  }
  constexpr FixedVector(std::initializer_list<T> values) : FixedVector() {
    for (const T& value : values) push_back(value);
  }

  constexpr void push_back(const T& value) {
    PLANSEARCH_CHECK(size_ < N);
    items_[size_++] = value;
  }
  constexpr void pop_back() { --size_; }
  constexpr void clear() { size_ = 0; }

  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
  [[nodiscard]] constexpr const T& operator[](std::size_t i) const { return items_[i]; }
  [[nodiscard]] constexpr T& operator[](std::size_t i) { return items_[i]; }
  [[nodiscard]] constexpr const T& back() const { return items_[size_ - 1U]; }
  [[nodiscard]] constexpr const T* begin() const { return items_; }
  [[nodiscard]] constexpr const T* end() const { return items_ + size_; }
  [[nodiscard]] constexpr T* begin() { return items_; }
  [[nodiscard]] constexpr T* end() { return items_ + size_; }

  friend constexpr bool operator==(const FixedVector& a, const FixedVector& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  constexpr void take(const FixedVector& other) {
    std::copy_n(other.items_, other.size_, items_);
    size_ = other.size_;
  }

  static_assert(std::is_trivially_destructible_v<T>);
  union {
    T items_[N];  // NOLINT: not made before its values are
  };
  std::uint8_t size_ = 0;
};

}  // namespace plansearch
