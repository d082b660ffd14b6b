// SPDX-License-Identifier: Apache-2.0
// The ways to cut a linear operator O[B,M,K] = I[B,M,N] W[N,K] over 2^n devices bit by bit: a
// sequence of parts, each of which takes the next bits of the device number, the outermost first.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace plansearch {

/// A dimension takes one bit, as do replicas, which cut nothing; a square of 2^k x 2^k takes 2k,
/// rows and columns in turn.
struct SequencePart {
  enum class Kind : std::uint8_t { Batch, Rows, Contraction, Columns, Square, Replicas };
  Kind kind = Kind::Batch;
  int log_side = 0;  ///< k of a square
  [[nodiscard]] int bits() const { return kind == Kind::Square ? 2 * log_side : 1; }
  bool operator==(const SequencePart&) const = default;
};
using PartitionSequence = std::vector<SequencePart>;

/// All sequences without replicas that take exactly so many bits, in lexical order.
[[nodiscard]] std::vector<PartitionSequence> all_sequences(int bits);
/// Those of these that have parts of such kinds alone, none a square.
[[nodiscard]] std::vector<PartitionSequence> plain_sequences(
    int bits, std::span<const SequencePart::Kind> kinds);
/// Those that are sorted inside every tier of the network. `tiers`: by bit, the innermost first,
/// which tier it crosses.
[[nodiscard]] std::vector<PartitionSequence> sorted_sequences(std::span<const int> tiers);
/// Whether parts inside one tier stand in the order of their kinds. A part across tiers is a border
/// of its own, as are replicas, which end where a tier does.
[[nodiscard]] bool is_sorted(const PartitionSequence& sequence, std::span<const int> tiers);
/// "N P2x2".
[[nodiscard]] std::string to_text(const PartitionSequence& sequence);

}  // namespace plansearch
