// SPDX-License-Identifier: Apache-2.0
// Pieces of a page: text that cannot become markup, tables, sections.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/text_table.hpp"

namespace plansearch::page {

/// With &, <, > and quotes as entities; control characters are left out.
[[nodiscard]] std::string escaped(std::string_view text);

enum class Rows { Fixed, Sortable };

/// A table of the same cells as in text; `caption` is for those who do not see it.
[[nodiscard]] std::string table(const TextTable& cells, std::string_view caption,
                                Rows rows = Rows::Fixed);

/// Nothing where there is no content. `name`: of its anchor.
[[nodiscard]] std::string section(std::string_view name, std::string_view heading,
                                  std::string_view content);

/// <p> of a line, nothing of an empty one.
[[nodiscard]] std::string paragraph(std::string_view text, std::string_view kind = {});
[[nodiscard]] std::string list(const std::vector<std::string>& lines);

/// A whole document: `body` in the page's own style, with the scripts that sort and filter.
[[nodiscard]] std::string document(std::string_view title, std::string_view body);

}  // namespace plansearch::page
