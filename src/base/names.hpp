// SPDX-License-Identifier: Apache-2.0
// Names as users type them: canonical form and nearest known names.
#pragma once

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

/// "did you mean a, b or c?" or an empty string.
[[nodiscard]] std::string did_you_mean(std::string_view name, std::span<const std::string> known);

}  // namespace plansearch
