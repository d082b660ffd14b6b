// SPDX-License-Identifier: Apache-2.0
// Architectures of Hugging Face's config.json. Unknown keys are ignored: such files carry many
// that do not concern training; missing keys and unknown families are errors.
#pragma once

#include <string>
#include <vector>

#include "io/document.hpp"
#include "plansearch/model_description.hpp"

namespace plansearch::io {

/// The description of the (text part of the) configuration. `name` is used when the file has none.
[[nodiscard]] ModelDescription read_hf_config(const Node& root, const std::string& name);
/// The values of `model_type` that are understood, sorted.
[[nodiscard]] std::vector<std::string> supported_hf_families();

}  // namespace plansearch::io
