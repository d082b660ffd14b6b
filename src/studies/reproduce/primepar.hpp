// SPDX-License-Identifier: Apache-2.0
// The parts of `reproduce primepar`.
#pragma once

#include <vector>

#include "studies/reproduce/reproduce.hpp"

namespace plansearch {

/// Figure 9: products and messages of an MLP.
void add_primepar_mlp(const StudyContext& context, std::vector<ReproducedRow>& rows);
/// Figures 2, 7 and 8: layers of six networks on 4 to 32 GPUs.
void add_primepar_models(const StudyContext& context, std::vector<ReproducedRow>& rows);
/// Figure 10: pipelines beside tensor groups.
void add_primepar_pipelines(const StudyContext& context, std::vector<ReproducedRow>& rows);

}  // namespace plansearch
