// SPDX-License-Identifier: Apache-2.0
// Computes: the sequences of parts over the bits of a device number, and the slices of each.
// Source: PrimePar (ASPLOS 2024, sections 3.2 and 3.3); a(n) = 4 a(n-1) + a(n-2) + a(n-4) + ...
// Assumes: every bit is a factor of two ranks. Units: bits, slice numbers. Checked by:
// tests/unit/communication/execution_test.cpp
#include "communication/operator_sequence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "communication/square.hpp"

namespace plansearch {
namespace {

using Kind = SequencePart::Kind;

void extend(int bits, OperatorSequence& prefix, std::vector<OperatorSequence>& all) {
  if (bits == 0) return all.push_back(prefix);
  const auto with = [&](SequencePart part) {
    if (part.bits() > bits) return;
    prefix.push_back(part);
    extend(bits - part.bits(), prefix, all);
    prefix.pop_back();
  };
  for (const Kind kind : {Kind::Batch, Kind::Rows, Kind::Contraction, Kind::Columns}) with({kind});
  for (int k = 1; 2 * k <= bits; ++k) with({Kind::Square, k});
}

SliceMap& map_of(LinearSlices& slices, Kind kind) {
  switch (kind) {
    case Kind::Rows:
      return slices.m;
    case Kind::Contraction:
      return slices.n;
    case Kind::Columns:
      return slices.k;
    default:
      return slices.batch;
  }
}

}  // namespace

std::vector<OperatorSequence> all_sequences(int bits) {
  std::vector<OperatorSequence> all;
  OperatorSequence prefix;
  extend(bits, prefix, all);
  return all;
}

std::string to_text(const OperatorSequence& sequence) {
  std::vector<std::string> parts;
  for (const SequencePart& part : sequence) {
    const int side = 1 << part.log_side;
    parts.push_back(part.kind == Kind::Square
                        ? fmt::format("P{}x{}", side, side)
                        : std::string(1, "BMNK R"[static_cast<std::size_t>(part.kind)]));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

PlacedSequence place_sequence(const OperatorSequence& sequence, const DeviceMesh& mesh) {
  PlacedSequence placed;
  int bit = 0;
  for (const SequencePart& part : sequence) {
    bit += part.bits();
    if (part.kind == Kind::Square) placed.steps <<= part.log_side;
  }
  int period = placed.steps;
  for (const SequencePart& part : sequence) {
    if (part.kind == Kind::Replicas) {
      --bit;
      continue;
    }
    if (part.kind != Kind::Square) {
      const Axis axis = factor_axis(static_cast<std::size_t>(--bit));
      SliceDigit digit;
      digit.modulus = mesh[axis].size;
      digit.terms.push_back({axis, 1});
      for (LinearSlices& slices : placed.phases) map_of(slices, part.kind).push_back(digit);
      continue;
    }
    FactorList rows;
    FactorList columns;
    for (int i = 0; i < part.log_side; ++i) {
      rows.push_back(static_cast<std::uint8_t>(--bit));
      columns.push_back(static_cast<std::uint8_t>(--bit));
    }
    period >>= part.log_side;
    const auto digits = square_digits(mesh, rows, columns, period);
    for (std::size_t phase = 0; phase < kOperatorPhaseCount; ++phase) {
      placed.phases[phase].m.push_back(digits[phase].m);
      placed.phases[phase].n.push_back(digits[phase].n);
      placed.phases[phase].k.push_back(digits[phase].k);
    }
  }
  return placed;
}

}  // namespace plansearch
