// SPDX-License-Identifier: Apache-2.0
// Computes:   the device and chunk of every virtual stage.
// Source:     Narayanan et al. (SC 2021) for the loop; Qi et al. (arXiv 2405.15362) for the V;
//             Liu et al., Hanayo (SC 2023) for the snake; Li and Hoefler, Chimera (SC 2021) for
//             two directions.
// Assumes:    one representative device per stage.
// Units:      none.
// Checked by: tests/unit/schedule/stage_places_test.cpp
#include "schedule/order/stage_places.hpp"

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "schedule/table.hpp"

namespace plansearch {
namespace {

std::vector<StagePlace> loop(int stages, int chunks) {
  std::vector<StagePlace> places;
  for (int k = 0; k < stages * chunks; ++k) places.push_back({k % stages, k / stages});
  return places;
}

std::vector<StagePlace> snake(int stages, int chunks) {
  std::vector<StagePlace> places = loop(stages, chunks);
  for (StagePlace& place : places) {
    if (place.chunk % 2 == 1) place.device = stages - 1 - place.device;
  }
  return places;
}

std::vector<StagePlace> both_ways(int stages, int chunks) {
  std::vector<StagePlace> places = loop(stages, chunks);
  for (int k = 0; k < stages * chunks; ++k) {
    const StagePlace& there = places[static_cast<std::size_t>(k)];
    places.push_back({stages - 1 - there.device, chunks + there.chunk});
  }
  return places;
}

using PlacesKey = std::tuple<const StageMapping*, int, int>;

/// Never forgets: a pipeline of 1,000 virtual stages takes 8 KB.
const std::vector<StagePlace>& shared_places(const PlacesKey& key) {
  static std::mutex mutex;
  static std::map<PlacesKey, std::unique_ptr<const std::vector<StagePlace>>> known;
  const std::lock_guard lock(mutex);
  auto& slot = known[key];
  if (!slot) {
    const auto& [placement, stages, chunks] = key;
    slot = std::make_unique<const std::vector<StagePlace>>(placement->places(stages, chunks));
  }
  return *slot;
}

}  // namespace

const StageMapping& looped_mapping() {
  static const StageMapping kLooped{"looped", "virtual stage k on device k mod p", loop};
  return kLooped;
}

const StageMapping& snake_mapping() {
  static const StageMapping kSnake{"snake", "there and back; two chunks make a V", snake};
  return kSnake;
}

const StageMapping& bidirectional_mapping() {
  static const StageMapping kBothWays{"bidirectional", "two replicas in opposite directions",
                                      both_ways, 2};
  return kBothWays;
}

std::span<const StagePlace> stage_places(const PipelineShape& shape) {
  thread_local PlacesKey last{};
  thread_local const std::vector<StagePlace>* places = nullptr;
  const PlacesKey key{&mapping_of(shape), shape.stages, shape.chunks};
  if (places == nullptr || key != last) {
    places = &shared_places(key);
    last = key;
  }
  return *places;
}

}  // namespace plansearch
