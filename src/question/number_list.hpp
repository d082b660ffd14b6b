// SPDX-License-Identifier: Apache-2.0
// Several whole numbers in one word: "8", "8,16,32", "512..4096".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace plansearch {

/// Ascending, each once; a range is the powers of two in it. Otherwise what is wrong with the text.
[[nodiscard]] std::variant<std::vector<std::int64_t>, std::string> read_numbers(
    std::string_view text);

/// "1T", "300 B", "15e12": a count of up to 1e18, or what is wrong with the text.
[[nodiscard]] std::variant<double, std::string> read_large_count(std::string_view text);

}  // namespace plansearch
