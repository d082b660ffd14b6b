// SPDX-License-Identifier: Apache-2.0
// What reads text from outside, one target a reader: it takes the text, or refuses it with an
// InputError that says why.
#pragma once

#include <span>
#include <string_view>

namespace plansearch::fuzz {

struct Target {
  std::string_view name;  ///< and folder of its corpus
  void (*read)(std::string_view text);
};

[[nodiscard]] std::span<const Target> targets();

/// Reads the text; InputErrors with a message are an answer, anything else ends the program.
void attempt(const Target& target, std::string_view text);

}  // namespace plansearch::fuzz
