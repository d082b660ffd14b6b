// SPDX-License-Identifier: Apache-2.0
// An answer as one page that needs nothing else: for those who did not ask the question.
#pragma once

#include <string>

#include "report/page/plots.hpp"

namespace plansearch::page {

/// HTML of less than two megabytes: the same bytes for the same answer.
[[nodiscard]] std::string search_page(const PageContent& content);

}  // namespace plansearch::page
