// SPDX-License-Identifier: Apache-2.0
// Whole numbers as people write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plansearch {

/// "4096", "1e6", "8,192", and in powers of 1,024 "128k" and "4M" (lengths and batches are meant
/// so). nullopt for other texts, for fractions, and for numbers that 63 bits do not hold.
[[nodiscard]] std::optional<std::int64_t> parse_count(std::string_view text);

/// "1,000" as "1000", where commas part groups of three digits; other texts as they are.
[[nodiscard]] std::string without_grouping(std::string_view text);

}  // namespace plansearch
