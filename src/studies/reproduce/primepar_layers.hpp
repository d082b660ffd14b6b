// SPDX-License-Identifier: Apache-2.0
// Layers of a network on PrimePar's machine, in plans that mix squares in time with Megatron's
// cuts: what one of them takes, part by part.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/evaluator.hpp"
#include "plansearch/placement_names.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

/// What runs beside kernels: nothing but tiles of operators in steps (the paper's baseline), or
/// whatever Megatron-LM hides today, tiles included.
enum class Hiding : std::uint8_t { TilesOnly, AsMegatron };

/// Which part of a network stands alone.
enum class Part : std::uint8_t { Layer, Mlp };

struct LayerQuestion {
  std::string model;
  int gpus = 1;
  std::int64_t batch = 1;
  Part part = Part::Layer;
  Hiding hiding = Hiding::TilesOnly;
};

/// How layers are split: `data` replicas of a tensor group, whose operators are cut as Megatron
/// cuts them, but for those in steps over squares of `side` devices.
struct LayerSplit {
  int data = 1;
  int tensor = 1;
  int side = 1;            ///< 1: nothing in steps
  bool attention = false;  ///< its linear operators run in steps
  bool mlp = false;
  bool between = false;  ///< norms and residuals are cut over the square too, or replicated
  /// What lies around the square cuts the batch outside the MLP, and features inside.
  bool by_batch = false;
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

/// A plan with its operators placed, on the network that tells layers apart.
struct SplitPlan {
  Problem problem;
  ParallelPlan plan;
};
/// Absent where the split does not go into the network or the batch.
[[nodiscard]] std::optional<SplitPlan> split_plan(const Problem& problem, const LayerSplit& split,
                                                  int pipeline = 1, int micro_batches = 1);

[[nodiscard]] std::optional<LayerPrice> layer_price(const LayerProblems& problems,
                                                    const LayerSplit& split);

/// Data and tensor degrees as Megatron has them.
[[nodiscard]] std::vector<LayerSplit> megatron_splits(int gpus);
/// The same, and every way to run attention, MLP or both in steps.
[[nodiscard]] std::vector<LayerSplit> all_splits(int gpus);

struct BestSplit {
  LayerSplit split;
  LayerPrice price;
};
/// The fastest; absent where none is a plan.
[[nodiscard]] std::optional<BestSplit> fastest_split(const LayerProblems& problems,
                                                     const std::vector<LayerSplit>& splits);

/// "d2 m4", "m8 P2x2 (mlp)".
[[nodiscard]] std::string to_text(const LayerSplit& split);

}  // namespace plansearch
