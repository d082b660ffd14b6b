// SPDX-License-Identifier: Apache-2.0
// Computes: which slices of M, N and K a device of a square works on, by step and phase.
// Source: PrimePar (ASPLOS 2024, section 3, Table 1); row r, column c, step t, all modulo s, last =
//         [t is the last step]:
//           forward          M: r      N: r+c+t         K: c
//           input gradient   M: r      N: r+c-1         K: c+t
//           weight gradient  M: r+t    N: r+c-1+last    K: c-1+last
//         Each phase ends with its operands where the next one starts, and the gradient of the
//         weight ends where the weight started.
// Assumes: rows and columns have the same number of devices.
// Units: slice numbers from 0.
// Checked by: tests/unit/communication/execution_test.cpp
#include "communication/slices/square.hpp"

namespace plansearch {
namespace {

/// A number written over factors, the outermost one first.
void add_number(const DeviceMesh& mesh, const FactorList& factors, SliceTerms& terms) {
  int weight = pieces_of(mesh, factors);
  for (const std::uint8_t factor : factors) {
    weight /= mesh[factor_axis(factor)].size;
    terms.push_back({factor_axis(factor), static_cast<std::int8_t>(weight)});
  }
}

struct Change {
  std::int8_t time = 0;
  std::int8_t last = 0;
  std::int16_t offset = 0;
};

}  // namespace

int pieces_of(const DeviceMesh& mesh, const FactorList& factors) {
  int product = 1;
  for (const std::uint8_t factor : factors) product *= mesh[factor_axis(factor)].size;
  return product;
}

SliceDigit ring_digit(const DeviceMesh& mesh, const FactorList& factors, bool own_first) {
  SliceTerms terms;
  add_number(mesh, factors, terms);
  return {pieces_of(mesh, factors), terms, 1, 0, static_cast<std::int16_t>(own_first ? 0 : 1), 1};
}

std::array<SquareDigits, kOperatorPhaseCount> square_digits(const DeviceMesh& mesh,
                                                            const FactorList& rows,
                                                            const FactorList& columns, int period) {
  const int side = pieces_of(mesh, rows);
  PLANSEARCH_CHECK(side == pieces_of(mesh, columns));
  SliceTerms row;
  SliceTerms column;
  SliceTerms both;
  add_number(mesh, rows, row);
  add_number(mesh, columns, column);
  add_number(mesh, rows, both);
  add_number(mesh, columns, both);
  const auto digit = [&](const SliceTerms& terms, Change change = {}) {
    const auto stands = static_cast<std::int16_t>(change.time == 0 ? 1 : period);
    return SliceDigit{side, terms, change.time, change.last, change.offset, stands};
  };
  constexpr Change kStep{1, 0, 0};
  constexpr Change kBehind{0, 0, -1};
  constexpr Change kCaughtUp{0, 1, -1};
  return {SquareDigits{digit(row), digit(both, kStep), digit(column)},
          SquareDigits{digit(row), digit(both, kBehind), digit(column, kStep)},
          SquareDigits{digit(row, kStep), digit(both, kCaughtUp), digit(column, kCaughtUp)}};
}

}  // namespace plansearch
