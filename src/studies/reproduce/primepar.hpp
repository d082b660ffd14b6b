// SPDX-License-Identifier: Apache-2.0
// The parts of `reproduce primepar` and `reproduce primepar-nodes`.
#pragma once

#include <array>
#include <cstdint>

#include "studies/reproduce/reproduce.hpp"

namespace plansearch {

/// Machines to compute: sequences over 16 GPUs take minutes.
enum class PrimeparNodes : std::uint8_t { UpToTwo, FourAndMore };

struct PrimeparModel {
  const char* name;
  const char* shown;
  const char* fitted_as;  ///< whose local batch it takes
};
inline constexpr std::array<PrimeparModel, 6> kPrimeparModels{
    {{"opt-6.7b", "OPT-6.7B", "opt-6.7b"},
     {"opt-175b", "OPT-175B", "bloom-176b"},
     {"llama2-7b", "Llama2-7B", "opt-6.7b"},
     {"llama2-70b", "Llama2-70B", "llama2-70b"},
     {"bloom-7b1", "BLOOM-7B1", "opt-6.7b"},
     {"bloom-176b", "BLOOM-176B", "bloom-176b"}}};

/// Figure 9: products and messages of an MLP.
void add_primepar_mlp(const StudyContext& context, PrimeparNodes nodes, Figures& figures);
/// Figures 2, 7 and 8: layers of six networks on 4 to 32 GPUs.
void add_primepar_models(const StudyContext& context, PrimeparNodes nodes, Figures& figures);
/// Figure 10: pipelines beside tensor groups.
void add_primepar_pipelines(const StudyContext& context, Figures& figures);

}  // namespace plansearch
