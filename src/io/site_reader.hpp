// SPDX-License-Identifier: Apache-2.0
// Measured sites (validation/sites.yaml) and the site of a fitted profile.
#pragma once

#include <filesystem>

#include "io/document.hpp"
#include "plansearch/site.hpp"

namespace plansearch::io {

/// InputError for anything wrong in the file, two sites of one name included.
[[nodiscard]] SiteTable read_sites(const std::filesystem::path& path);

/// The key `site` of a hardware profile.
[[nodiscard]] FittedSite read_fitted_site(const Node& node);

}  // namespace plansearch::io
