// SPDX-License-Identifier: Apache-2.0
// Layers of a network on PrimePar's machine, cut as Megatron does and by the sequences that the
// planner finds: what one of them takes, part by part.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evidence/reproduce/reproduce.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/shipped_data.hpp"
#include "search/strategies/partition/partition_planner.hpp"

namespace plansearch {

/// Messages that run beside kernels: nothing but tiles of operators in steps (the paper's
/// baseline), or whatever Megatron-LM hides today, tiles included.
enum class Hiding : std::uint8_t { TilesOnly, AsMegatron };

/// Which part of a network stands alone: all of it, its layers, or their MLP.
enum class Part : std::uint8_t { All, Layers, Mlp };

struct LayerQuestion {
  std::string model;
  int gpus = 1;
  std::int64_t batch = 1;
  Part part = Part::All;
  Hiding hiding = Hiding::TilesOnly;
  /// Rings over whole nodes over the rate of a card; absent: as the profile says.
  std::optional<double> full_node{};
};

struct LayerDegrees {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;
  int micro_batches = 1;
  Recompute recompute = Recompute::None;
};

/// Layers cut by role, as Megatron cuts them, or as placements say.
struct LayerPlan {
  LayerDegrees degrees;
  std::optional<Placements> placements;
  std::string words{};  ///< "qkv, mlp_in K P2x2; ...": products of weights
};

/// One layer, beside equal ones before and after it.
struct LayerPrice {
  Seconds step;
  Seconds compute;
  Seconds collectives;     ///< all-reduces, exposed
  Seconds redistribution;  ///< other messages of operators in one step, exposed
  Seconds tiles;           ///< what travels between steps, be it hidden
  Seconds exposed_tiles;   ///< not hidden, and what it costs the kernels beside it
  Bytes stored;            ///< parameters and what forward keeps for backward
  Bytes all;               ///< with gradients, optimizer states, working set and buffers
  Bytes ends;              ///< of all: what the network has beside its layers
};

/// The question about `layers` of them, in fp32 and with 2,048 tokens.
[[nodiscard]] Problem layer_problem(const LayerQuestion& question, std::int64_t layers,
                                    const ShippedData& data);

/// About a few layers and about more: the difference is what one takes beside equal ones.
struct LayerProblems {
  LayerProblems(const LayerQuestion& question, const ShippedData& data);
  Problem few;
  Problem more;
};

/// Absent where the batch or the network does not divide.
[[nodiscard]] std::optional<ParallelPlan> made_plan(const Problem& problem, const LayerPlan& plan);

[[nodiscard]] std::optional<LayerPrice> layer_price(const LayerProblems& problems,
                                                    const LayerPlan& plan);

/// Data and tensor degrees as Megatron has them.
[[nodiscard]] std::vector<LayerPlan> megatron_plans(int gpus);

/// Plans that the planner of sequences offers: the least sum of time and the corners of the front
/// of time and bytes, tiles under their own products.
[[nodiscard]] std::vector<LayerPlan> sequence_plans(const Problem& problem,
                                                    const LayerDegrees& degrees,
                                                    PartitionSpace space = PartitionSpace::All);
/// The same for every tensor group of up to 16 GPUs, replicas around it.
[[nodiscard]] std::vector<LayerPlan> sequence_plans(const LayerProblems& problems,
                                                    PartitionSpace space = PartitionSpace::All);

struct BestLayer {
  LayerPlan plan;
  LayerPrice price;
};
/// The fastest; absent where none is a plan.
[[nodiscard]] std::optional<BestLayer> fastest_layer(const LayerProblems& problems,
                                                     const std::vector<LayerPlan>& plans);

/// "d2 m4", "m8: qkv, mlp_in K P2x2; projection, mlp_out N P2x2".
[[nodiscard]] std::string to_text(const LayerPlan& plan);

/// Machines to compute: sequences over 16 GPUs take minutes.
enum class PrimeparNodes : std::uint8_t { UpToTwo, FourAndMore };

inline constexpr int kPrimeparNode = 4;  ///< accelerators of a node

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
