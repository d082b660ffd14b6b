// SPDX-License-Identifier: Apache-2.0
// Computes: what micro-batches of a placement wait for, and which dispatchers are worth trying.
// Source: evaluate/block/least_waits.hpp, each once for all plans of a placement.
// Assumes: over two links that are both slower no dispatcher is faster.
// Units: seconds.
// Checked by: tests/unit/evaluate/bound_test.cpp, tests/unit/search/exhaustive_test.cpp
#include <algorithm>
#include <iterator>

#include "evaluate/block/profile_maker.hpp"

namespace plansearch {
namespace {

/// Without those that are on the way of another one and slower over both links.
std::vector<DispatcherId> worth_trying(const Framework& framework) {
  std::vector<DispatcherId> tried = tried_dispatchers(framework);
  const auto beaten = [&](DispatcherId id) {
    if (id == kOwnDispatcher) return false;
    const TokenDispatcher& one = dispatcher_of(framework, id);
    return std::any_of(tried.begin(), tried.end(), [&](DispatcherId other) {
      const TokenDispatcher& faster = dispatcher_of(framework, other);
      const bool no_slower = faster.path == one.path && faster.fabric_share >= one.fabric_share &&
                             faster.link_share >= one.link_share;
      const bool equal =
          faster.fabric_share == one.fabric_share && faster.link_share == one.link_share;
      return no_slower && other != kOwnDispatcher && (!equal || other < id);
    });
  };
  std::vector<DispatcherId> worth;
  std::copy_if(tried.begin(), tried.end(), std::back_inserter(worth),
               [&](DispatcherId id) { return !beaten(id); });
  return worth;
}

}  // namespace

void ProfileMaker::find_tried() {
  tried_ = worth_trying(*problem_.framework);
}

const std::vector<BlockWaits>& ProfileMaker::waits(const PlacedNetwork& placed, Piece piece,
                                                   DispatcherId dispatcher) const {
  const auto number = static_cast<std::uint32_t>(piece.sequences) << 9U |
                      static_cast<std::uint32_t>(dispatcher) << 1U | (piece.alone ? 1U : 0U);
  return placed.waits.get(number, [&] {
    const std::vector<RepeatedShares>& shares = repeated(0);
    std::vector<BlockWaits> made;
    made.reserve(placed.blocks().size());
    for (std::size_t b = 0; b < placed.blocks().size(); ++b) {
      const PlacedBlock& own = placed.blocks()[b];
      const RepeatedShares& again = own.pieces ? own.pieces->repeated : shares[b];
      made.push_back(plansearch::least_waits(context_, placed, b, again, piece, dispatcher));
    }
    return made;
  });
}

ProfileMaker::WaitChord ProfileMaker::wait_chord(const PlacedNetwork& placed, Piece piece,
                                                 DispatcherId dispatcher) const {
  constexpr int kStep = 4;
  int below = 1;
  while (below <= piece.sequences / kStep) below *= kStep;
  WaitChord chord{&waits(placed, {below, piece.alone}, dispatcher), nullptr, 0.0};
  if (below == piece.sequences) return chord;
  chord.larger = &waits(placed, {below * kStep, piece.alone}, dispatcher);
  chord.share = static_cast<double>(piece.sequences - below) / (below * (kStep - 1));
  return chord;
}

BlockWaits ProfileMaker::least_waits(const PlacedNetwork& placed, Piece piece,
                                     DispatcherId dispatcher) const {
  const WaitChord chord = wait_chord(placed, piece, dispatcher);
  BlockWaits sum;
  for (const BlockRun& run : problem_.network->order) {
    chord.add(run.block, static_cast<double>(run.count), sum);
  }
  return sum;
}

/// Cuts follow from degrees, wherever the ranks of an axis lie.
std::uint32_t ProfileMaker::number(const StatesKey& key) const {
  StatesKey sizes = key;
  sizes.plan.dispatcher = kOwnDispatcher;
  const std::lock_guard lock(mutex_);
  return numbers_.emplace(sizes, static_cast<std::uint32_t>(numbers_.size())).first->second;
}

std::uint32_t ProfileMaker::number(const std::shared_ptr<const Placements>& placements) const {
  if (!placements) return 0;
  const std::lock_guard lock(mutex_);
  const auto known = std::find_if(numbered_.begin(), numbered_.end(), [&](const auto& other) {
    return other == placements || *other == *placements;
  });
  const auto number = static_cast<std::uint32_t>(known - numbered_.begin()) + 1U;
  if (known == numbered_.end()) numbered_.push_back(placements);
  return number;
}

const NetworkWork& ProfileMaker::network_work(const PlacedNetwork& placed, int sequences) const {
  return placed.work.get(static_cast<std::uint32_t>(sequences), [&] {
    const auto local = kernels(placed, sequences);
    NetworkWork sum;
    for (const BlockRun& run : problem_.network->order) {
      const BlockKernels& block = local->blocks[run.block];
      NetworkWork work{block.forward.time,
                       block.backward.time - block.weight_gradient.time,
                       block.weight_gradient.time,
                       {}};
      for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
        work.repeated[level] = block.repeated[level].time;
      }
      sum.add(work, static_cast<double>(run.count));
    }
    return sum;
  });
}

}  // namespace plansearch
