// SPDX-License-Identifier: Apache-2.0
// Text from outside, made safe for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace plansearch {

/// Characters of one part of a message: a place, a sentence, a hint.
inline constexpr std::size_t kMostShown = 1500;

/// The same text with control characters, line ends included, written as "\x1b" and the middle of
/// what is longer than `most` left out.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most = kMostShown);

/// Index of the first control character other than a tab or a line end; npos without one.
[[nodiscard]] std::size_t find_control(std::string_view text);

}  // namespace plansearch
