// SPDX-License-Identifier: Apache-2.0
// Shipped (or given) profiles, models and frameworks as people read them.
#pragma once

#include <string>

#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/shipped_data.hpp"
#include "report/shown.hpp"

namespace plansearch {

[[nodiscard]] Shown show_cluster(const Cluster& cluster);
[[nodiscard]] Shown show_model(const ModelDescription& model);
[[nodiscard]] Shown show_framework(const Framework& framework);

/// `what`: hw, model or framework; `name`: a shipped name, an alias or a file.
[[nodiscard]] Shown show_file(const std::string& what, const std::string& name,
                              const ShippedData& data);

/// The network of a model as a graph file (docs/graphs.md), as the default framework builds it.
[[nodiscard]] std::string graph_file(const std::string& model, const ShippedData& data);

}  // namespace plansearch
