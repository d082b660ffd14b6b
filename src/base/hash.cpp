// SPDX-License-Identifier: Apache-2.0
#include "base/hash.hpp"

#include <fmt/format.h>

namespace plansearch {
namespace {

// Finaliser of SplitMix64: every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30U;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27U;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31U);
}

}  // namespace

std::uint64_t content_hash(std::string_view bytes) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : bytes) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return mix(hash);
}

std::uint64_t combine_hashes(std::uint64_t first, std::uint64_t second) {
  return mix(first * 0x9e3779b97f4a7c15ULL + second);
}

std::string hash_text(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

}  // namespace plansearch
