// SPDX-License-Identifier: Apache-2.0
// Values of `--set` laid over a parsed file before anybody reads it: units, checks and messages are
// those of the reader of that file.
#pragma once

#include <span>

#include "base/overrides.hpp"
#include "io/document/document.hpp"

namespace plansearch::io {

/// A copy of the document with the values set; items of lists go by their `name`, or by number from
/// 0. A key below a value that names another file ("accelerator: a100") makes that file's contents
/// the base: {like: a100, KEY: VALUE}. The hash covers the values set. InputError for an item that
/// the list does not have, with the nearest; the reader reports unknown keys.
[[nodiscard]] Document overlaid(const Document& document, std::span<const Override> overrides);

/// Whether a value was set by `--set`, and not in a file.
[[nodiscard]] bool is_set_place(const SourceLocation& where);

}  // namespace plansearch::io
