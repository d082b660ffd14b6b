// SPDX-License-Identifier: Apache-2.0
// Text from outside: names as users type them, with the nearest known ones, and text made safe for a terminal.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plansearch {

/// Lower case, '_' and ' ' become '-': "DGX_H100" -> "dgx-h100".
[[nodiscard]] std::string canonical_name(std::string_view name);

/// Up to `count` different known names nearest to `name`, best first: by edit distance over letters
/// and digits, where a name inside the other counts as one edit. Names further than half their
/// length, or much further than the best, are left out. Ties keep the order of `known`.
[[nodiscard]] std::vector<std::string> nearest_names(std::string_view name,
                                                     std::span<const std::string> known,
                                                     std::size_t count = 3);

/// The parts of a text between any of the separators: at least one, and some may be empty.
[[nodiscard]] std::vector<std::string> split(std::string_view text, std::string_view separators);
/// The non-empty words between separators.
[[nodiscard]] std::vector<std::string> words_of(std::string_view text, std::string_view separators);

/// The text without blanks at its ends.
[[nodiscard]] std::string_view trimmed(std::string_view text, std::string_view blanks = " ");

/// "did you mean a, b or c?" or an empty string.
[[nodiscard]] std::string did_you_mean(std::string_view name, std::span<const std::string> known);

/// Characters of one part of a message: a place, a sentence, a hint.
inline constexpr std::size_t kMostShown = 1500;

/// The same text with control characters, line ends included, written as "\x1b" and the middle of
/// what is longer than `most` left out.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most = kMostShown);

/// Index of the first control character other than a tab or a line end; npos without one.
[[nodiscard]] std::size_t find_control(std::string_view text);

}  // namespace plansearch
