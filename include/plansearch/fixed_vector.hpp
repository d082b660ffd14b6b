// SPDX-License-Identifier: Apache-2.0
// A vector of at most N plain values that never allocates.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "plansearch/error.hpp"

namespace plansearch {

template <typename T, std::size_t N>
class FixedVector {
 public:
  constexpr FixedVector() = default;
  constexpr FixedVector(std::initializer_list<T> values) {
    for (const T& value : values) push_back(value);
  }

  constexpr void push_back(const T& value) {
    PLANSEARCH_CHECK(size_ < N);
    items_[size_++] = value;
  }
  constexpr void pop_back() { items_[--size_] = T{}; }
  constexpr void clear() { *this = FixedVector{}; }

  [[nodiscard]] constexpr std::size_t size() const { return size_; }
  [[nodiscard]] constexpr bool empty() const { return size_ == 0; }
  [[nodiscard]] constexpr const T& operator[](std::size_t i) const { return items_[i]; }
  [[nodiscard]] constexpr T& operator[](std::size_t i) { return items_[i]; }
  [[nodiscard]] constexpr const T& back() const { return items_[size_ - 1U]; }
  [[nodiscard]] constexpr const T* begin() const { return items_.data(); }
  [[nodiscard]] constexpr const T* end() const { return items_.data() + size_; }
  [[nodiscard]] constexpr T* begin() { return items_.data(); }
  [[nodiscard]] constexpr T* end() { return items_.data() + size_; }

  friend constexpr bool operator==(const FixedVector& a, const FixedVector& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  std::array<T, N> items_{};
  std::uint8_t size_ = 0;
};

}  // namespace plansearch
