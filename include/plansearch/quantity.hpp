// SPDX-License-Identifier: Apache-2.0
// Physical quantities as types: a double whose time, data and work exponents the compiler checks.
#pragma once

#include <compare>

namespace plansearch {

/// A value with the dimension time^Time * data^Data * work^Work, held in base units
/// (second, byte, floating-point operation).
template <int Time, int Data, int Work>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double base_units) : value_(base_units) {}

  /// The number of base units.
  [[nodiscard]] constexpr double value() const { return value_; }

  constexpr Quantity& operator+=(Quantity other) {
    value_ += other.value_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ -= other.value_;
    return *this;
  }
  constexpr Quantity& operator*=(double factor) {
    value_ *= factor;
    return *this;
  }
  constexpr Quantity& operator/=(double divisor) {
    value_ /= divisor;
    return *this;
  }

  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, double factor) { return a *= factor; }
  friend constexpr Quantity operator*(double factor, Quantity a) { return a *= factor; }
  friend constexpr Quantity operator/(Quantity a, double divisor) { return a /= divisor; }
  friend constexpr double operator/(Quantity a, Quantity b) { return a.value_ / b.value_; }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  double value_ = 0.0;
};

using Seconds = Quantity<1, 0, 0>;
using Bytes = Quantity<0, 1, 0>;
using Flops = Quantity<0, 0, 1>;       ///< a count of floating-point operations
using Bandwidth = Quantity<-1, 1, 0>;  ///< bytes per second
using FlopRate = Quantity<-1, 0, 1>;   ///< floating-point operations per second

constexpr Seconds operator/(Bytes data, Bandwidth rate) {
  return Seconds(data.value() / rate.value());
}
constexpr Seconds operator/(Flops work, FlopRate rate) {
  return Seconds(work.value() / rate.value());
}
constexpr Bytes operator*(Bandwidth rate, Seconds time) {
  return Bytes(rate.value() * time.value());
}
constexpr Bandwidth operator/(Bytes data, Seconds time) {
  return Bandwidth(data.value() / time.value());
}
constexpr FlopRate operator/(Flops work, Seconds time) {
  return FlopRate(work.value() / time.value());
}

}  // namespace plansearch
