// SPDX-License-Identifier: Apache-2.0
// How a run is implemented, where somebody says more than the framework file: flags, the software
// of a profile, columns of measured runs.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"

namespace plansearch {

/// In the words of flags and columns; absent: as the profile, then the framework says.
struct SoftwareChoice {
  std::optional<std::string> implementation{};  ///< eager, fused, compiled, te
  /// Single kernels, separated by spaces, commas or '+'. Operators for which neither this nor
  /// `implementation` names a kernel run eagerly.
  std::optional<std::string> kernels{};
  std::optional<std::string> main_grads{};   ///< bf16, fp16, fp32
  std::optional<std::string> fp8_recipe{};   ///< tensorwise, rowwise, delayed, block, mxfp8
  std::optional<std::string> cuda_graphs{};  ///< 0, 1
};

/// InputError for options that contradict each other. `attention`: flash, unfused, or empty.
void refuse_contradictions(const SoftwareChoice& choice, std::string_view attention,
                           DataType precision);

/// What lives in memory of the host: "none", "0" or "optimizer" (states and their update).
/// InputError for other words, frameworks that cannot and machines of whose hosts nothing is known.
void apply_offload(Framework& framework, const Cluster& machine, const std::string& text);

/// Changes `framework` by the software of the machine, then by the choice. InputError for words
/// that are not known.
void apply_software(Framework& framework, const SoftwareStack& machine,
                    const SoftwareChoice& choice, DataType precision);

}  // namespace plansearch
