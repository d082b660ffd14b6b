// SPDX-License-Identifier: Apache-2.0
// How a run is implemented, where somebody says more than the framework file: flags, the software
// of a profile, columns of measured runs.
#pragma once

#include <string>
#include <string_view>

#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/problem_request.hpp"

namespace plansearch {

/// InputError for options that contradict each other. `attention`: flash, unfused, or empty.
void refuse_contradictions(const ProblemRequest& choice, std::string_view attention,
                           DataType precision);

/// What lives in memory of the host: "none", "0" or "optimizer" (states and their update).
/// InputError for other words, frameworks that cannot and machines of whose hosts nothing is known.
void apply_offload(Framework& framework, const Cluster& machine, const std::string& text);

/// Changes `framework` by the software of the machine, then by the settings of the question: a set
/// of implementations (eager, fused, compiled, te), single kernels, separated by spaces, commas or
/// '+' (operators for which neither names a kernel run eagerly), main gradients, recipe, graphs.
/// InputError for words that are not known.
void apply_software(Framework& framework, const SoftwareStack& machine,
                    const ProblemRequest& choice, DataType precision);

}  // namespace plansearch
