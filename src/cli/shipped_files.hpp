// SPDX-License-Identifier: Apache-2.0
// Profiles, models and frameworks by path, shipped name or alias.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/model_reader.hpp"
#include "io/name_resolver.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"

namespace plansearch::cli {

[[nodiscard]] Cluster load_shipped_cluster(std::string_view name);
[[nodiscard]] ModelDescription load_shipped_model(std::string_view name);
/// The same with what the file says about itself.
[[nodiscard]] io::ModelFile load_shipped_model_file(std::string_view name);
[[nodiscard]] Framework load_shipped_framework(std::string_view name);

[[nodiscard]] std::vector<io::NamedFile> shipped_clusters();
[[nodiscard]] std::vector<io::NamedFile> shipped_models();
[[nodiscard]] std::vector<io::NamedFile> shipped_frameworks();

}  // namespace plansearch::cli
