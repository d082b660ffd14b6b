// SPDX-License-Identifier: Apache-2.0
// Damage to texts as people and disks do it. The sequence is fixed.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>

namespace plansearch::test {

inline constexpr std::array<const char*, 26> kMutatorTokens = {
    "-1",   "0",   "nan", "inf", "1e999",   "99999999999999999999",
    "null", "~",   "[",   "{",   "}",       "]",
    ": ",   "- ",  "\n",  "\t",  "&a ",     "*a",
    "!!x",  "'",   "\"",  "# ",  "12 GB/s", "none",
    "|\n",  "\xff"};

class Mutator {
 public:
  explicit Mutator(std::uint32_t seed) : random_(seed) {}

  std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  std::string damage(std::string text) {
    const std::size_t times = 1 + below(3);
    for (std::size_t i = 0; i < times; ++i) damage_once(text);
    return text;
  }

 private:
  void damage_once(std::string& text) {
    const std::size_t at = below(text.size());
    switch (below(6)) {
      case 0:  // one byte
        if (!text.empty()) text[at] = static_cast<char>(below(256));
        return;
      case 1:  // cut out
        text.erase(at, 1 + below(40));
        return;
      case 2:  // truncate
        if (below(4) == 0) text.resize(at);
        return;
      case 3:  // insert
        text.insert(at, kMutatorTokens.at(below(kMutatorTokens.size())));
        return;
      case 4: {  // replace a value
        const std::size_t colon = text.find(": ", at);
        if (colon == std::string::npos) return;
        const std::size_t end = text.find('\n', colon);
        text.replace(colon + 2, end - colon - 2, kMutatorTokens.at(below(kMutatorTokens.size())));
        return;
      }
      default: {  // repeat a line
        const std::size_t start = text.rfind('\n', at);
        const std::size_t end = text.find('\n', at);
        if (start == std::string::npos || end == std::string::npos || end <= start) return;
        text.insert(end, text.substr(start, end - start));
      }
    }
  }

  std::mt19937 random_;
};

/// The text with one bit of one byte changed.
inline std::string with_flipped_bit(std::string text, std::size_t byte, unsigned bit) {
  text[byte] = static_cast<char>(static_cast<unsigned char>(text[byte]) ^ (1U << bit));
  return text;
}

}  // namespace plansearch::test
