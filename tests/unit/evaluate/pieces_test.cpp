// SPDX-License-Identifier: Apache-2.0
// Operators in pieces on one device: what they keep, run again and send, beside the same plan
// without pieces.
#include <doctest/doctest.h>

#include <algorithm>

#include "communication/slices/local_sizes.hpp"
#include "evaluate/block/profile_maker.hpp"
#include "plan/primitives/recompute.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/plan_report.hpp"
#include "plansearch/plan_stages.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::pieces_test {
namespace {

constexpr int kTensor = 2;
constexpr int kPieces = 4;

struct Priced {
  Problem problem;
  ParallelPlan plan;
  Estimate estimate;
};

/// All layers on two devices, their MLP in pieces of its inner width; 1: no region.
Priced price(int pieces, PieceRecompute recompute, Recompute level = Recompute::None) {
  Problem problem = test::toy_problem({.layers = 4, .gpus = kTensor, .global_batch = 1});
  PlanDegrees degrees;
  degrees.tensor_out = kTensor;
  degrees.recompute = level;
  PlacementNames names;
  names.factors = {kTensor};
  if (pieces > 1) names.regions = {{{}, {"decoder"}, {}, {"ffn"}, pieces, recompute}};
  auto made = resolve_placements(names, *problem.network, degrees, *problem.framework);
  if (const auto* fault = std::get_if<PlacementFault>(&made)) FAIL(fault->message);
  auto& distinguished = std::get<DistinguishedNetwork>(made);
  problem.network = distinguished.network;
  std::vector<StageDescription> stages(1);
  stages[0].degrees = degrees;
  stages[0].chunks = {problem.network->order};
  auto plan = plan_of_stages(stages, {degrees.schedule, 1}, problem.global_batch,
                             *problem.framework, *problem.network);
  REQUIRE(std::holds_alternative<ParallelPlan>(plan));
  auto placed = with_placements(std::get<ParallelPlan>(plan), distinguished.placements,
                                *problem.network, *problem.framework);
  if (const auto* bad = std::get_if<Infeasible>(&placed)) FAIL(bad->detail);
  const auto& whole = std::get<ParallelPlan>(placed);
  const Evaluation result = PlanEvaluator(problem).evaluate(whole);
  REQUIRE(std::holds_alternative<Estimate>(result));
  return {problem, whole, std::get<Estimate>(result)};
}

const Block& decoder(const Network& network) {
  return *std::find_if(network.blocks.begin(), network.blocks.end(),
                       [](const Block& block) { return block.kind == BlockKind::Decoder; });
}

bool is_wide(const Network& network, const std::vector<DimId>& dims) {
  return std::any_of(dims.begin(), dims.end(),
                     [&](DimId dim) { return network.dimension(dim).role == DimRole::Ffn; });
}

/// Bytes of one device that the MLP keeps of tensors as wide as it is: 16 bits an element.
double wide_bytes(const Network& network) {
  double bytes = 0.0;
  const Block& block = decoder(network);
  for (const Operator& op : block.operators) {
    for (const Saved& saved : op.saved) {
      const std::vector<DimId>& dims = block.tensor(saved.tensor).dims;
      if (!is_wide(network, dims)) continue;
      REQUIRE(saved.as == SavedAs::Itself);
      bytes += 2.0 * element_count(network, dims) * saved.count / kTensor;
    }
  }
  return bytes;
}

/// Of one layer, while its backward runs.
double working_set(const Priced& priced) {
  const ProfileMaker maker(priced.problem);
  const Transform& transform = priced.plan.transforms[0];
  const Network& network = *priced.problem.network;
  const auto number = static_cast<std::size_t>(&decoder(network) - network.blocks.data());
  return maker.profile(transform.degrees, transform.mesh, transform.placements)
      ->blocks[number]
      .memory.working_set.value();
}

std::vector<double> sent(const Priced& priced) {
  std::vector<double> bytes;
  for (const PricedCommunication& line :
       plan_details(PlanEvaluator(priced.problem), priced.plan).communication) {
    bytes.push_back(line.bytes.value());
    bytes.push_back(line.count);
    bytes.push_back(line.time.value());
  }
  return bytes;
}

TEST_SUITE("unit") {
  TEST_CASE("pieces that are kept: the same memory and messages, smaller kernels") {
    const Priced whole = price(1, PieceRecompute::Kept);
    const Priced pieces = price(kPieces, PieceRecompute::Kept);
    CHECK(pieces.estimate.memory == whole.estimate.memory);
    CHECK(sent(pieces) == sent(whole));
    CHECK(pieces.estimate.step.compute > whole.estimate.step.compute);
    CHECK(pieces.estimate.step.recompute == whole.estimate.step.recompute);
  }

  TEST_CASE("pieces that run again: nothing wide is kept, one piece of one layer is there") {
    const Priced whole = price(1, PieceRecompute::Kept);
    const Priced pieces = price(kPieces, PieceRecompute::RunAgain);
    const double wide = wide_bytes(*whole.problem.network);
    CHECK(wide > 0.0);
    CHECK((whole.estimate.memory.activations - pieces.estimate.memory.activations).value() ==
          doctest::Approx(4 * wide));
    CHECK(pieces.estimate.step.recompute > Seconds(0));
    CHECK(sent(pieces) == sent(whole));
    // Beside it the gradient that enters the layer and that of one of the two wide tensors: whole, or
    // of a piece.
    const double one = wide / 2.0;
    CHECK(working_set(whole) == doctest::Approx(one / 2.0 + one));
    CHECK(working_set(pieces) == doctest::Approx(wide / kPieces + one / 2.0 + one / kPieces));
  }

  TEST_CASE("inside a layer that runs again pieces run twice more") {
    const Priced pieces = price(kPieces, PieceRecompute::RunAgain, Recompute::Full);
    const Priced whole = price(1, PieceRecompute::Kept, Recompute::Full);
    CHECK(pieces.estimate.memory.activations == whole.estimate.memory.activations);
    const Network& network = *pieces.problem.network;
    const Placements& placements = *pieces.plan.transforms[0].placements;
    const auto runs = recomputed_runs(network, network.order, Recompute::Full, 0);
    const SelectiveRecompute& selective = pieces.problem.framework->selective;
    double mlp = 0.0;
    double all = 0.0;
    for (const BlockRun& run : network.order) {
      for (const Operator& op : network.blocks[run.block].operators) {
        const double flops = useful_forward_flops(network, op).value() * double(run.count);
        all += flops;
        if (is_wide(network, op.loop)) mlp += flops;
      }
    }
    CHECK(repeated_flops_share(network, runs, selective, &placements) -
              repeated_flops_share(network, runs, selective) ==
          doctest::Approx(mlp / all));
  }

  TEST_CASE("a kernel works on a piece, a parameter is whole") {
    const Priced pieces = price(kPieces, PieceRecompute::RunAgain);
    const Network& network = *pieces.problem.network;
    const Transform& transform = pieces.plan.transforms[0];
    const PlacementRules rules =
        placement_rules(network, transform.degrees, transform.mesh, *pieces.problem.framework,
                        transform.placements.get());
    const auto number = static_cast<std::size_t>(&decoder(network) - network.blocks.data());
    const Block& block = network.blocks[number];
    const BlockIndex index = index_block(network, block);
    BlockPlacement placement;
    place_block(block, index, rules, placement, number);
    const BlockCuts cuts = cut_block(network, block, index, rules, placement);
    const BlockCuts small =
        cut_pieces(block, index, transform.placements->blocks[number], rules.extents, cuts);
    const LocalSizes held(block, index, cuts, rules.extents);
    const LocalSizes piece(block, index, small, rules.extents);
    for (std::size_t i = 0; i < block.operators.size(); ++i) {
      const Operator& op = block.operators[i];
      const bool wide = is_wide(network, op.loop);
      CAPTURE(op.name);
      CHECK(small.steps[i] == (wide ? kPieces : 1));
      for (const TensorId id : op.outputs) {
        const bool cut = is_wide(network, block.tensor(id).dims);
        CHECK(piece.tensor(i, id) * (cut ? kPieces : 1) == held.tensor(i, id));
      }
      for (const ParameterId id : op.parameters) {
        const bool cut = is_wide(network, block.parameter(id).dims);
        CHECK(piece.parameter(i, id) * (cut ? kPieces : 1) == held.parameter(i, id));
      }
    }
  }
}

}  // namespace
}  // namespace plansearch::pieces_test
