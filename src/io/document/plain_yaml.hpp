// SPDX-License-Identifier: Apache-2.0
// A fast reader of the YAML of data files: block and flow maps and lists, scalars of one line, comments.
// Private to io.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/document/raw_value.hpp"

namespace plansearch::io {

/// The tree of the text, equal to what the YAML library reads to the last column; nothing where the
/// text holds anything else, or a fault: the library reads it then, and finds the words.
[[nodiscard]] std::optional<RawValue> parse_plain_yaml(std::string_view text,
                                                       std::shared_ptr<const std::string> file,
                                                       const ParseLimits& limits);

/// By the YAML library alone.
[[nodiscard]] RawValue parse_any_yaml(std::string_view text,
                                      std::shared_ptr<const std::string> file,
                                      const ParseLimits& limits);

}  // namespace plansearch::io
