// SPDX-License-Identifier: Apache-2.0
#include "support/placed_sequence.hpp"

#include "communication/slices/square.hpp"

namespace plansearch::test {
namespace {

using Kind = SequencePart::Kind;

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

PlacedSequence place_sequence(const PartitionSequence& sequence, const DeviceMesh& mesh) {
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

}  // namespace plansearch::test
