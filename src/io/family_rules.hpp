// SPDX-License-Identifier: Apache-2.0
// The rules of a family file, applied to the keys of a configuration: what comes out is the tree of
// a model file (plansearch/model/v1), each value with its place in the configuration.
#pragma once

#include <string>
#include <vector>

#include "io/hf_keys.hpp"

namespace plansearch::io {

struct RawValue;

/// Whether a map of a family file says where a value comes from; otherwise it is a section.
[[nodiscard]] bool is_rule(const RawValue& map);

/// The fields of the model. Missing keys, values that are not understood and keys that change the
/// network in a way nobody described are errors; `family` names the family in them.
[[nodiscard]] RawValue apply_family(const Node& rules, const HfKeys& keys,
                                    const std::string& family);

/// Keys of the configuration that no rule of the family knows, sorted. Null ones say nothing.
[[nodiscard]] std::vector<std::string> unknown_keys(const Node& rules, const HfKeys& keys);

}  // namespace plansearch::io
