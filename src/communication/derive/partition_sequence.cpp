// SPDX-License-Identifier: Apache-2.0
// Computes: the sequences of parts over the bits of a device number, that its devices are cut by.
// Source: PrimePar (ASPLOS 2024, sections 3.2 and 3.3); a(n) = 4 a(n-1) + a(n-2) + a(n-4) + ...
// Assumes: every bit is a factor of two ranks.
// Units: bits, slice numbers.
// Checked by: tests/unit/communication/execution_test.cpp
#include "communication/derive/partition_sequence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <utility>

namespace plansearch {
namespace {

using Kind = SequencePart::Kind;

using Visit = std::function<bool(const PartitionSequence&, int)>;

/// All sequences of some parts over so many bits, in lexical order. `admits`: whether a prefix and
/// the number of bits behind it may be gone on with.
void extend(int bits, std::span<const SequencePart> parts, const Visit& admits,
            PartitionSequence& prefix, std::vector<PartitionSequence>& all) {
  if (bits == 0) return all.push_back(prefix);
  for (const SequencePart& part : parts) {
    if (part.bits() > bits) continue;
    prefix.push_back(part);
    if (admits(prefix, bits - part.bits())) extend(bits - part.bits(), parts, admits, prefix, all);
    prefix.pop_back();
  }
}

std::vector<PartitionSequence> sequences_of(int bits, std::span<const SequencePart> parts,
                                            const Visit& admits) {
  std::vector<PartitionSequence> all;
  PartitionSequence prefix;
  extend(bits, parts, admits, prefix, all);
  return all;
}

std::vector<SequencePart> all_parts(int bits) {
  std::vector<SequencePart> parts{
      {Kind::Batch}, {Kind::Rows}, {Kind::Contraction}, {Kind::Columns}};
  for (int k = 1; 2 * k <= bits; ++k) parts.push_back({Kind::Square, k});
  return parts;
}

/// Whether the last part of a prefix may stand behind the one before it; `rest` bits follow.
bool stands_sorted(const PartitionSequence& prefix, std::size_t rest, std::span<const int> tiers) {
  const SequencePart& part = prefix.back();
  const std::size_t outer = rest + static_cast<std::size_t>(part.bits());  // bits up to its own
  const bool replicas = part.kind == Kind::Replicas;
  const bool crosses = tiers[outer - 1] != tiers[rest];
  if (crosses || replicas || prefix.size() < 2) return true;
  const SequencePart& before = prefix[prefix.size() - 2];
  if (before.kind == Kind::Replicas) return tiers[outer] != tiers[outer - 1];
  const std::size_t begin = outer + static_cast<std::size_t>(before.bits());
  const bool together = tiers[begin - 1] == tiers[outer] && tiers[outer] == tiers[outer - 1];
  const auto rank = [](const SequencePart& p) { return std::pair(p.kind, p.log_side); };
  return !together || rank(before) <= rank(part);
}

}  // namespace

std::vector<PartitionSequence> all_sequences(int bits) {
  return sequences_of(bits, all_parts(bits), [](const auto&, int) { return true; });
}

std::vector<PartitionSequence> plain_sequences(int bits, std::span<const Kind> kinds) {
  std::vector<SequencePart> parts;
  for (const Kind kind : kinds) parts.push_back({kind});
  return sequences_of(bits, parts, [](const auto&, int) { return true; });
}

std::vector<PartitionSequence> sorted_sequences(std::span<const int> tiers) {
  const auto bits = static_cast<int>(tiers.size());
  return sequences_of(bits, all_parts(bits), [&](const PartitionSequence& prefix, int rest) {
    return stands_sorted(prefix, static_cast<std::size_t>(rest), tiers);
  });
}

bool is_sorted(const PartitionSequence& sequence, std::span<const int> tiers) {
  PartitionSequence prefix;
  std::size_t rest = tiers.size();
  for (const SequencePart& part : sequence) {
    prefix.push_back(part);
    rest -= static_cast<std::size_t>(part.bits());
    if (!stands_sorted(prefix, rest, tiers)) return false;
  }
  return true;
}

std::string to_text(const PartitionSequence& sequence) {
  std::vector<std::string> parts;
  for (const SequencePart& part : sequence) {
    const int side = 1 << part.log_side;
    parts.push_back(part.kind == Kind::Square
                        ? fmt::format("P{}x{}", side, side)
                        : std::string(1, "BMNK R"[static_cast<std::size_t>(part.kind)]));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

}  // namespace plansearch
