// SPDX-License-Identifier: Apache-2.0
// Which forward work a recompute level runs again before backward.
#pragma once

#include <cstdint>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

/// The operators that selective recomputation runs again under a plan: the modules it names, or
/// those of the framework's own policy.
[[nodiscard]] SelectiveRecompute selective_of(const Framework& framework, const PlanDegrees& plan);

/// By operator of the block, the share of it that is run again, 0 to 1. Full recompute repeats
/// layers, neither embeddings nor head.
[[nodiscard]] std::vector<double> repeated_shares(const Block& block, Recompute recompute,
                                                  const SelectiveRecompute& selective);

/// Whether the rule says whose outputs are kept, needed by backward or not; else everything that
/// backward needs is kept but what runs again.
[[nodiscard]] bool keeps_outputs(const SelectiveRecompute& selective);

/// Whether operators that run again exchange their messages again, or find what came kept.
[[nodiscard]] bool sends_again(Recompute recompute, const SelectiveRecompute& selective);

/// Whether a tensor that an operator saves is gone until the operator runs again: no product that
/// runs once keeps it as well.
[[nodiscard]] bool is_dropped(const Block& block, const std::vector<double>& repeated,
                              std::size_t index, TensorId tensor);

/// Whether only the inputs of the block are kept.
[[nodiscard]] bool repeats_whole(const Block& block, Recompute recompute);

/// Copies of a block among the first `layers` layers of a chunk.
[[nodiscard]] std::int64_t copies_among_first(const Network& network,
                                              const std::vector<BlockRun>& chunk, std::size_t block,
                                              int layers);

struct RecomputedRun {
  BlockRun run;
  Recompute level = Recompute::None;
};

/// The runs of a chunk, each with what is recomputed of it: where `layers` is not 0, of its first
/// layers only.
[[nodiscard]] std::vector<RecomputedRun> recomputed_runs(const Network& network,
                                                         const std::vector<BlockRun>& chunk,
                                                         Recompute level, int layers);

/// Adds one run to the shares of operators whose pieces run again.
void repeat_pieces(const std::vector<PieceRegion>& regions, std::vector<double>& shares);

/// Forward FLOPs that are run again over those of one forward pass. `placements`: null, or what
/// runs in pieces.
[[nodiscard]] double repeated_flops_share(const Network& network,
                                          const std::vector<RecomputedRun>& runs,
                                          const SelectiveRecompute& selective,
                                          const Placements* placements = nullptr);

/// Whether selective recompute drops anything: fused attention leaves the attention core nothing.
[[nodiscard]] bool selective_drops(const Network& network, const SelectiveRecompute& selective);

}  // namespace plansearch
