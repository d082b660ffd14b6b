// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/run_prediction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>
#include <system_error>

#include "base/names.hpp"
#include "evidence/validate/lookup.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "plansearch/plan_stages.hpp"

namespace plansearch {
namespace {

std::int64_t count_in(std::string_view text, const std::string& whole) {
  constexpr std::int64_t kMost = 100'000;
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && stop == end && value >= 0 && value <= kMost) return value;
  throw refusal(fmt::format("stage_layers \"{}\": not layers of chunks, such as 4x15,1", whole));
}

/// The blocks of every chunk.
std::vector<std::vector<BlockRun>> chunks_of(const Network& network,
                                             const std::vector<std::int64_t>& layers) {
  std::vector<std::vector<BlockRun>> chunks(layers.size());
  std::size_t chunk = 0;
  std::int64_t left = layers.front();
  std::int64_t to_come = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  const auto add = [&](std::size_t block, std::int64_t count) {
    std::vector<BlockRun>& runs = chunks[chunk];
    if (!runs.empty() && runs.back().block == block) {
      runs.back().count += count;
    } else {
      runs.push_back({block, count});
    }
  };
  for (const BlockRun& run : network.order) {
    if (!is_layer(network.blocks[run.block].kind)) {
      add(run.block, run.count);
      continue;
    }
    for (std::int64_t count = run.count; count > 0;) {
      while (left == 0 && chunk + 1 < chunks.size()) left = layers[++chunk];
      const std::int64_t taken = std::min(left, count);
      if (taken == 0) break;  // more layers than were listed
      add(run.block, taken);
      left -= taken;
      count -= taken;
      to_come -= taken;
    }
    if (to_come == 0) chunk = chunks.size() - 1;  // a prediction module, the head
  }
  return chunks;
}

std::int64_t layers_in(const Network& network) {
  std::int64_t sum = 0;
  for (const BlockRun& run : network.order) {
    if (is_layer(network.blocks[run.block].kind)) sum += run.count;
  }
  return sum;
}

}  // namespace

std::vector<std::int64_t> read_stage_layers(const std::string& text) {
  std::vector<std::int64_t> layers;
  for (const std::string& part : split(text, ", ")) {
    const std::size_t times = part.find('x');
    const std::int64_t own = count_in(std::string_view(part).substr(0, times), text);
    const std::int64_t copies =
        times == std::string::npos ? 1 : count_in(std::string_view(part).substr(times + 1), text);
    layers.insert(layers.end(), static_cast<std::size_t>(copies), own);
  }
  if (layers.empty()) count_in("", text);
  return layers;
}

std::variant<ParallelPlan, Infeasible> with_stage_layers(const PlanEvaluator& evaluator,
                                                         const PlanDegrees& plan,
                                                         const std::vector<std::int64_t>& layers) {
  const Network& network = *evaluator.problem().network;
  const auto chunks =
      static_cast<std::size_t>(plan.pipeline) * static_cast<std::size_t>(plan.chunks);
  const std::int64_t listed = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (layers.size() != chunks || listed != layers_in(network)) {
    return Infeasible{
        .obstacle = Obstacle::MoreStagesThanLayers,
        .detail = fmt::format("stage_layers lists {} layers of {} chunks, the run has "
                              "{} of {}",
                              listed, layers.size(), layers_in(network), chunks)};
  }
  const auto contents = chunks_of(network, layers);
  std::vector<StageDescription> stages(static_cast<std::size_t>(plan.pipeline));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    stages[s].degrees = plan;
    stages[s].chunks.clear();
    for (std::size_t c = s; c < contents.size(); c += stages.size()) {
      stages[s].chunks.push_back(contents[c]);
    }
  }
  return plan_of_stages(stages,
                        Order{.schedule = plan.schedule, .micro_batches = plan.micro_batches},
                        plan.global_batch(), *evaluator.problem().framework, network);
}

}  // namespace plansearch
