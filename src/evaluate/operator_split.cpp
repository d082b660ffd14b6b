// SPDX-License-Identifier: Apache-2.0
// Computes: kernels and messages of a block whose operators are cut one by one.
// Source: the derivation and the prices of uniform plans (communication/derive.hpp,
//         local_work.hpp), asked about a placement of its own.
// Assumes: an operator is cut along one dimension at most; what crosses the edges of the block is
//          whole on every device.
// Units: seconds per micro-batch, elements.
// Checked by: tests/unit/search/intra_op_test.cpp (parts sum; uniform plans are one choice)
#include "evaluate/operator_split.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "evaluate/class_profile.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr std::array kSplitRoles{DimRole::Head, DimRole::Ffn, DimRole::Vocab, DimRole::Hidden};

/// Nothing lies on the tensor devices before an operator is asked.
PlacementRules rules_without_tensor(const Problem& problem, const PlanDegrees& degrees,
                                    const DeviceMesh& mesh) {
  PlacementRules rules = placement_rules(*problem.network, degrees, mesh, *problem.framework);
  for (auto& slices : rules.slices) {
    for (SliceMap& map : slices) {
      if (map.axes().contains(Axis::Out)) map = SliceMap{};
    }
  }
  return rules;
}

}  // namespace

struct OperatorSplit::Parts {
  Parts(const Problem& asked, const PlanDegrees& plan, std::size_t number)
      : problem(asked),
        degrees(plan),
        context(pricing_context(problem)),
        mesh(make_device_mesh(plan, problem.framework->rank_order)),
        rules(rules_without_tensor(problem, plan, mesh)),
        policies(tensor_policies(plan, mesh, *problem.framework, problem.precision)),
        block(problem.network->blocks[number]),
        index(index_block(*problem.network, block)),
        repeated(repeated_shares(block, problem.framework->selective)) {
    placed_extents(*problem.network, plan, *problem.framework, extents);
    for (std::size_t op = 0; op < block.operators.size(); ++op) options.push_back(options_of(op));
  }

  [[nodiscard]] std::vector<int> options_of(std::size_t op) const {
    std::vector<int> found{kWhole};
    const std::vector<DimId>& loop = block.operators[op].loop;
    for (std::size_t i = 0; i < loop.size(); ++i) {
      const Dimension& dimension = problem.network->dimension(loop[i]);
      const bool splits =
          std::find(kSplitRoles.begin(), kSplitRoles.end(), dimension.role) != kSplitRoles.end();
      // Whatever divides, padded as the framework pads.
      const auto extent = static_cast<std::int64_t>(extents[static_cast<std::size_t>(loop[i])]);
      if (splits && extent % degrees.tensor_out == 0) found.push_back(static_cast<int>(i));
    }
    return found;
  }

  [[nodiscard]] BlockPlacement place(const SplitChoice& choice) const {
    BlockPlacement placement;
    place_block(block, index, rules, placement);
    for (std::size_t op = 0; op < choice.size(); ++op) {
      if (choice[op] == kWhole) continue;
      placement.operators[op].loop[static_cast<std::size_t>(choice[op])] =
          SliceMap::shard(mesh, {Axis::Out});
    }
    return placement;
  }

  Problem problem;
  PlanDegrees degrees;
  PricingContext context;
  DeviceMesh mesh;
  PlacementRules rules;
  TensorPolicies policies;
  const Block& block;
  BlockIndex index;
  RepeatedShares repeated;
  std::vector<double> extents;
  std::vector<std::vector<int>> options;
};

OperatorSplit::OperatorSplit(const Problem& problem, const PlanDegrees& degrees,
                             std::size_t block) {
  PlanDegrees alone = degrees;
  alone.pipeline = alone.chunks = 1;
  alone.sequence_parallel = SequenceParallel::Off;
  parts_ = std::make_unique<const Parts>(problem, alone, block);
}

OperatorSplit::~OperatorSplit() = default;

const Block& OperatorSplit::block() const {
  return parts_->block;
}

const std::vector<int>& OperatorSplit::options(std::size_t op) const {
  return parts_->options[op];
}

std::string OperatorSplit::cut_dimension(std::size_t op, int option) const {
  if (option == kWhole) return {};
  const DimId dim = parts_->block.operators[op].loop[static_cast<std::size_t>(option)];
  return parts_->problem.network->dimension(dim).name;
}

std::vector<std::size_t> OperatorSplit::touching(TensorId tensor) const {
  const auto at = static_cast<std::size_t>(tensor);
  std::vector<std::size_t> operators = parts_->index.consumers[at];
  const std::size_t producer = parts_->index.producers[at];
  if (producer != kEdge) operators.push_back(producer);
  std::sort(operators.begin(), operators.end());
  operators.erase(std::unique(operators.begin(), operators.end()), operators.end());
  return operators;
}

std::shared_ptr<const LocalWork> OperatorSplit::work(const SplitChoice& choice) const {
  const Parts& p = *parts_;
  const BlockPlacement placement = p.place(choice);
  PlacedBlock placed;
  placed.cuts = cut_block(*p.problem.network, p.block, p.index, p.rules, placement);
  const DerivationScratchPtr scratch = make_derivation_scratch();
  std::vector<Communication> demands;
  derive_operator_communication({*p.problem.network, p.block, p.index, p.rules, placement,
                                 p.policies, p.problem.framework->sharding},
                                *scratch, demands);
  // Extents are those of the whole micro-batch: messages need no scaling by its sequences.
  for (const Communication& demand : demands) placed.messages.push_back({demand, false});
  auto work = std::make_shared<LocalWork>();
  auto network = std::make_shared<PlacedNetwork>();
  network->plan = p.degrees;
  network->mesh = p.mesh;
  work->placed = std::move(network);
  work->blocks.reserve(1);
  work->operators.reserve(p.block.operators.size());
  work->messages.reserve(placed.messages.size());
  add_block_work(
      p.context,
      LocalBlock{p.block, p.index, placed, p.repeated,
                 LocalSizes(p.block, p.index, placed.cuts, p.extents), p.degrees.micro_batch},
      *work);
  return work;
}

Seconds OperatorSplit::price(const SplitChoice& choice) const {
  const auto priced = work(choice);
  Seconds sum;
  for (std::size_t op = 0; op < parts_->block.operators.size(); ++op) {
    sum += operator_price(priced->blocks.front(), op).total();
  }
  for (const PassMessage& message : priced->messages) {
    if (message.communication.reader == kNoReader) continue;
    sum += message.time * static_cast<double>(message.communication.count);
  }
  return sum;
}

Seconds OperatorSplit::own(std::size_t op, const SplitChoice& choice) const {
  return operator_price(work(choice)->blocks.front(), op).total();
}

Seconds OperatorSplit::moving(TensorId tensor, const SplitChoice& choice) const {
  const auto priced = work(choice);
  Seconds sum;
  for (const PassMessage& message : priced->messages) {
    const Communication& c = message.communication;
    if (c.reader == kNoReader || c.index != static_cast<std::uint32_t>(tensor)) continue;
    sum += message.time * static_cast<double>(c.count);
  }
  return sum;
}

double OperatorSplit::parameters(std::size_t op, const SplitChoice& choice) const {
  const Parts& p = *parts_;
  const BlockPlacement placement = p.place(choice);
  const BlockCuts cuts = cut_block(*p.problem.network, p.block, p.index, p.rules, placement);
  const LocalSizes sizes(p.block, p.index, cuts, p.extents);
  double elements = 0.0;
  for (const ParameterId id : p.block.operators[op].parameters) {
    elements += sizes.parameter(op, id);
  }
  return elements;
}

}  // namespace plansearch
