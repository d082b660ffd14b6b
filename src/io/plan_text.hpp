// SPDX-License-Identifier: Apache-2.0
// Values of plan files, read and written; parts of the readers of this folder.
#pragma once

#include <string>
#include <string_view>

#include "io/document.hpp"
#include "plansearch/degree_set.hpp"

namespace plansearch::io {

/// One degree: a number in its range, a switch as true or false, or one of its words.
[[nodiscard]] int read_degree(const Node& node, Degree degree);
[[nodiscard]] std::string yaml_value(Degree degree, int value);
/// A double-quoted YAML scalar.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace plansearch::io
