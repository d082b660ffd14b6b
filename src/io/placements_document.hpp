// SPDX-License-Identifier: Apache-2.0
// The part of a plan file that says how single operators are cut: `placements:`
// (docs/plan_format.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/document.hpp"
#include "io/plan_stages_document.hpp"
#include "plansearch/placement_names.hpp"

namespace plansearch::io {

struct PlacementsDocument {
  PlacementNames names;
  FilePlace place;
  std::vector<FilePlace> operators;  ///< where the entries stand
  std::vector<FilePlace> edges;
  bool operator==(const PlacementsDocument& other) const { return names == other.names; }

  [[nodiscard]] const SourceLocation& where(const PlacementFault& fault) const;
};

/// `placements:` of a plan file; nothing where it has none.
[[nodiscard]] std::optional<PlacementsDocument> read_placements(const Node& root);
[[nodiscard]] std::string to_yaml(const PlacementNames& names);

}  // namespace plansearch::io
