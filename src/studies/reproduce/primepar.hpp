// SPDX-License-Identifier: Apache-2.0
// The parts of `reproduce primepar`.
#pragma once

#include <cstdint>
#include <vector>

#include "studies/reproduce/reproduce.hpp"

namespace plansearch {

/// Machines to compute: sequences over 16 GPUs take minutes.
enum class PrimeparNodes : std::uint8_t { UpToTwo, FourAndMore };

/// Figure 9: products and messages of an MLP.
void add_primepar_mlp(const StudyContext& context, PrimeparNodes nodes,
                      std::vector<ReproducedRow>& rows);
/// Figures 2, 7 and 8: layers of six networks on 4 to 32 GPUs.
void add_primepar_models(const StudyContext& context, PrimeparNodes nodes,
                         std::vector<ReproducedRow>& rows);
/// Figure 10: pipelines beside tensor groups.
void add_primepar_pipelines(const StudyContext& context, std::vector<ReproducedRow>& rows);

}  // namespace plansearch
