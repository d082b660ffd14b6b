// SPDX-License-Identifier: Apache-2.0
// The way of every answer out: nothing that is not a number leaves as one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace plansearch {

/// Throws InputError that names the first number that is not finite. Tables and CSV ask it too,
/// with the answer as JSON.
void require_finite(const nlohmann::ordered_json& answer);

/// The text of an answer: indented by `indent`, or on one line. Bytes that are not UTF-8 become
/// U+FFFD. Throws as require_finite.
[[nodiscard]] std::string json_text(const nlohmann::ordered_json& answer, int indent = -1);

}  // namespace plansearch
