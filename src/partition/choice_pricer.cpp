// SPDX-License-Identifier: Apache-2.0
// Computes: kernels, messages, states of one launch under one choice of cuts; what moves a tensor.
// Source: the derivation and the prices of plans (communication/derive/tensor_layouts.hpp,
//         operator_time.hpp, pass_message.hpp). Tiles that travel under products:
//         max(products, ring) per phase (PrimePar, ASPLOS 2024, section 4).
// Assumes: reductions at the end of a step are bandwidth alone: those of all copies go together.
// Units: seconds per micro-batch and copy, bytes.
// Checked by: tests/unit/evaluate/choice_tables_test.cpp
#include "partition/choice_pricer.hpp"

#include <algorithm>

#include "communication/derive/derivation.hpp"
#include "cost/kernels/compute_cost.hpp"
#include "evaluate/block/local_work.hpp"
#include "evaluate/block/operator_time.hpp"
#include "plan/primitives/recompute.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

std::size_t at(OperatorPhase phase) {
  return static_cast<std::size_t>(phase);
}

PlanDegrees without_pipeline(PlanDegrees degrees) {
  degrees.pipeline = degrees.chunks = 1;
  return degrees;
}

/// As plans are derived: messages grow with the micro-batch afterwards.
PlanDegrees of_one_sequence(PlanDegrees degrees) {
  degrees.micro_batch = 1;
  return degrees;
}

DeviceMesh factored_mesh(const Problem& problem, const PlanDegrees& degrees,
                         const std::vector<int>& factors) {
  return with_factors(make_device_mesh(without_pipeline(degrees), problem.framework->rank_order),
                      factors);
}

Placements all_whole(const Network& network, const std::vector<int>& factors) {
  Placements placements{factors, {}};
  for (const Block& block : network.blocks) {
    BlockChoice& choice = placements.blocks.emplace_back();
    choice.operators.resize(block.operators.size(), FactorCuts{});
    choice.squares.resize(block.operators.size());
    choice.entering = choice.leaving = FactorCuts{};
  }
  return placements;
}

}  // namespace

std::shared_ptr<KnownRoutes> make_known_routes(const Problem& problem, const PlanDegrees& degrees,
                                               const std::vector<int>& factors,
                                               const KnownRoutes* other) {
  const DeviceMesh mesh = factored_mesh(problem, degrees, factors);
  return std::make_shared<KnownRoutes>(mesh, alike_factors(*problem.cluster, mesh), other);
}

bool share_routes(const Problem& problem, const PlanDegrees& one, const PlanDegrees& other,
                  const std::vector<int>& factors) {
  if (one.tensor_out != other.tensor_out) return false;
  if (one.data == other.data && one.pipeline == other.pipeline) return true;
  // Experts are spread over replicas, and groups of shards cut the batch in two.
  const bool spread = std::ranges::any_of(problem.network->dimensions, [](const Dimension& dim) {
    return dim.role == DimRole::Routed;
  });
  return !spread && one.shard_group == 0 && other.shard_group == 0 &&
         lie_alike(*problem.cluster, factored_mesh(problem, one, factors),
                   factored_mesh(problem, other, factors));
}

ChoicePricer::ChoicePricer(const Problem& problem, const PlanDegrees& degrees, std::size_t block,
                           double copies, const std::vector<int>& factors,
                           std::shared_ptr<ReshardingPrices> moves)
    : problem_(problem),
      degrees_(without_pipeline(degrees)),
      context_(pricing_context(problem_)),
      mesh_(factored_mesh(problem_, degrees, factors)),
      rates_(context_, mesh_),
      placements_(all_whole(*problem_.network, factors)),
      rules_(placement_rules(*problem_.network, of_one_sequence(degrees_), mesh_,
                             *problem_.framework, &placements_)),
      policies_(tensor_policies(degrees_, mesh_, *problem_.framework, problem_.precision)),
      statics_(
          static_policy(policies_, mesh_, optimizer_moments(problem_.model->training.optimizer))),
      block_(problem_.network->blocks[block]),
      index_(index_block(*problem_.network, block_)),
      repeated_(repeated_shares(block_, selective_of(*problem_.framework, degrees))),
      copies_(copies),
      choice_(placements_.blocks[block]),
      moves_(moves ? std::move(moves)
                   : std::make_shared<ReshardingPrices>(
                         make_known_routes(problem_, degrees, factors))) {
  placed_extents(*problem_.network, degrees_, *problem_.framework, extents_);
  fill_fullest_rank(*problem_.network, mesh_, degrees_.micro_batch, extents_);
  place_block(block_, index_, rules_, placement_, block);
  for (std::size_t t = 0; t < block_.tensors.size(); ++t) add_moved(static_cast<TensorId>(t));
}

void ChoicePricer::place(const std::vector<std::size_t>& operators, const SequenceOption& option) {
  for (std::size_t i = 0; i < operators.size(); ++i) {
    choice_.operators[operators[i]] = option.operators[i].cuts;
    choice_.squares[operators[i]] = option.operators[i].squares;
    place_operator(block_, index_, rules_, placement_, operators[i]);
  }
}

void ChoicePricer::place_edges(const std::optional<FactorCuts>& cuts) {
  choice_.entering = choice_.leaving = cuts;
}

DerivationInput ChoicePricer::input() const {
  return {*problem_.network,
          block_,
          index_,
          rules_,
          placement_,
          problem_.framework->sharding,
          dispatcher_of(*problem_.framework, degrees_.dispatcher).path,
          rates_.of_paths()};
}

Seconds ChoicePricer::time(const Communication& demand) const {
  const bool grows = grows_with_micro_batch(*problem_.network, block_, demand);
  return time(demand, demand.elements * (grows ? degrees_.micro_batch : 1));
}

Seconds ChoicePricer::time(const Communication& demand, double elements) const {
  const double fullest = fullest_rank(*problem_.network, mesh_, degrees_.micro_batch);
  const PhaseMessage message =
      price_message(context_, mesh_, demand, elements, fullest, degrees_.dispatcher);
  return message.time * static_cast<double>(demand.count);
}

FusedGroupCost ChoicePricer::launch(const std::vector<std::size_t>& operators) {
  cuts_ = cut_block(*problem_.network, block_, index_, rules_, placement_);
  const LocalSizes sizes(block_, index_, cuts_, extents_);
  FusedGroupCost cost;
  std::array<Seconds, kOperatorPhaseCount> kernels{};
  std::array<Seconds, kOperatorPhaseCount> travelling{};
  for (const std::size_t op : operators) {
    const OperatorTime time = operator_time(context_, block_, sizes, op);
    kernels[at(OperatorPhase::Forward)] += time.forward;
    kernels[at(OperatorPhase::InputGradient)] += time.backward - time.weight_gradient;
    kernels[at(OperatorPhase::WeightGradient)] += time.weight_gradient;
    for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
      if (repeats_whole(block_, static_cast<Recompute>(level))) continue;
      cost.repeated[level] += time.forward * repeated_[level][op];
    }
    add_messages(op, cost, travelling);
    add_parameters(op, sizes, cost);
  }
  for (std::size_t phase = 0; phase < kOperatorPhaseCount; ++phase) {
    const auto book = [&](PhaseCost& pass, Seconds time) {
      (phase == at(OperatorPhase::Forward) ? pass.forward : pass.rest) += time;
    };
    book(cost.kernels, kernels[phase]);
    book(cost.pass(Rings::Exposed), kernels[phase] + travelling[phase]);
    book(cost.pass(Rings::Hidden), std::max(kernels[phase], travelling[phase]));
  }
  return cost;
}

void ChoicePricer::add_messages(std::size_t op, FusedGroupCost& cost,
                                std::array<Seconds, kOperatorPhaseCount>& rings) {
  demands_.clear();
  derive_inside(input(), *scratch_, op, demands_);
  for (const Communication& demand : demands_) {
    const Seconds time = this->time(demand);
    if (demand.steps > 1) {
      rings[static_cast<std::size_t>(demand.phase)] += time;
    } else {
      cost.add(demand.phase == DemandPhase::Forward ? PhaseCost{time, {}} : PhaseCost{{}, time});
    }
  }
}

void ChoicePricer::add_parameters(std::size_t op, const LocalSizes& sizes, FusedGroupCost& cost) {
  demands_.clear();
  derive_own_parameters(input(), policies_, *scratch_, op, demands_);
  for (const Communication& demand : demands_) {
    if (demand.scope == Scope::Step || demand.phase == DemandPhase::Step) {
      cost.step += time(demand, demand.elements * copies_) / copies_;
    } else {
      const Seconds time = this->time(demand);
      const bool again =
          demand.on_recompute == RecomputeGather::Repeated && demand.phase == DemandPhase::Forward;
      cost.add(again ? PhaseCost{time, {}} : PhaseCost{{}, time});
    }
  }
  double frozen = 0.0;  // bytes
  double trained = 0.0;
  for (const ParameterId id : block_.operators[op].parameters) {
    const double local = sizes.parameter(op, id);
    if (block_.parameter(id).trainable == Trainable::Yes) {
      trained += local;
    } else {
      frozen += local * element_size(frozen_format(*problem_.network, block_, block_.operators[op],
                                                   id, context_.precision))
                            .value();
    }
  }
  const Bytes traffic(trained * copies_ * statics_.dense.optimizer_traffic *
                      context_.constants.optimizer_factor);
  cost.step += stream_time(problem_.cluster->accelerator, traffic, 0) / copies_;
  cost.states += frozen * statics_.dense.share + trained * statics_.dense.parameter +
                 trained * (statics_.dense.gradient + statics_.dense.optimizer);
}

void ChoicePricer::place_by_role(const std::optional<FactorCuts>& edges) {
  for (auto& cuts : choice_.operators) cuts.reset();
  place_edges(edges);
  place_block(block_, index_, rules_, placement_,
              static_cast<std::size_t>(&choice_ - placements_.blocks.data()));
}

Seconds ChoicePricer::role_kernels(const std::optional<FactorCuts>& edges, Recompute level) {
  place_by_role(edges);
  cuts_ = cut_block(*problem_.network, block_, index_, rules_, placement_);
  const LocalSizes sizes(block_, index_, cuts_, extents_);
  Seconds kernels;
  for (std::size_t op = 0; op < block_.operators.size(); ++op) {
    const OperatorTime time = operator_time(context_, block_, sizes, op);
    kernels +=
        time.forward * (1.0 + repeated_[static_cast<std::size_t>(level)][op]) + time.backward;
  }
  return kernels;
}

Seconds ChoicePricer::role_messages(const std::optional<FactorCuts>& edges, Recompute level) {
  place_by_role(edges);
  const double repeats = repeats_whole(block_, level) ? 1.0 : 0.0;
  demands_.clear();
  {
    const auto lock = moves_->routes().lock();
    const auto scratch = make_derivation_scratch(moves_->routes().scratch());
    derive_operator_communication(input(), *scratch, demands_);
  }
  Seconds messages;
  for (const Communication& demand : demands_) {
    messages += time(demand) * (demand.phase == DemandPhase::Forward ? 1.0 + repeats : 1.0);
  }
  return messages;
}

MakerLayouts ChoicePricer::maker(std::size_t op, TensorId tensor) {
  MakerLayouts layouts = maker_layouts(input(), op, tensor);
  layouts.made = moves_->numbered(std::move(layouts.made.layout));
  layouts.gradient = moves_->numbered(std::move(layouts.gradient.layout));
  return layouts;
}

ReaderLayouts ChoicePricer::reader(std::size_t op, TensorId tensor) {
  ReaderLayouts layouts = reader_layouts(input(), op, tensor);
  layouts.wanted = moves_->numbered(std::move(layouts.wanted.layout));
  layouts.gradient = moves_->numbered(std::move(layouts.gradient.layout));
  return layouts;
}

NumberedLayout ChoicePricer::leaving(TensorId tensor) {
  return moves_->numbered(leaving_layout(*problem_.network, block_, tensor, rules_, placement_));
}

void ChoicePricer::add_saved(std::size_t reader, const Saved& saved, double elements,
                             ByRecompute<double>& bytes) const {
  const Bytes element = saved.as == SavedAs::Single
                            ? Bytes(4)
                            : element_size(block_.tensor(saved.tensor).element, context_.precision);
  for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
    if (repeats_whole(block_, static_cast<Recompute>(level)) || repeated_[level][reader] > 0.0) {
      continue;
    }
    bytes[level] += element.value() * elements * saved.count;
  }
}

ByRecompute<double> ChoicePricer::saved(const std::vector<std::size_t>& operators) const {
  ByRecompute<double> bytes{};
  const LocalSizes sizes(block_, index_, cuts_, extents_);
  for (std::size_t reader = 0; reader < block_.operators.size(); ++reader) {
    for (const Saved& saved : block_.operators[reader].saved) {
      const std::size_t maker = index_.producers[static_cast<std::size_t>(saved.tensor)];
      if (std::ranges::find(operators, maker) == operators.end()) continue;
      add_saved(reader, saved, sizes.tensor(maker, saved.tensor), bytes);
    }
  }
  return bytes;
}

ByRecompute<double> ChoicePricer::saved_inputs() const {
  ByRecompute<double> bytes{};
  const BlockCuts cuts = cut_block(*problem_.network, block_, index_, rules_, placement_);
  const LocalSizes sizes(block_, index_, cuts, extents_);
  for (std::size_t reader = 0; reader < block_.operators.size(); ++reader) {
    for (const Saved& saved : block_.operators[reader].saved) {
      if (index_.producers[static_cast<std::size_t>(saved.tensor)] != kEdge) continue;
      add_saved(reader, saved, sizes.edge(saved.tensor), bytes);
    }
  }
  for (std::size_t level = 0; level < kRecomputeLevels; ++level) {
    if (!repeats_whole(block_, static_cast<Recompute>(level))) continue;
    for (const TensorId id : block_.inputs) {
      bytes[level] += element_size(context_.precision.activation).value() * sizes.edge(id);
    }
  }
  return bytes;
}

/// Tensors of one size and element are one subject.
void ChoicePricer::add_moved(TensorId tensor) {
  const Tensor& moved = block_.tensor(tensor);
  ReshardedTensor& made = moved_.emplace_back();
  double elements = 1.0;
  for (const DimId dim : moved.dims) {
    const SliceDigits& cuts = rules_.slice(PlacementVariant::Plain, dim).digits();
    const bool over_replicas = !cuts.empty() && cuts[0].terms[0].axis == Axis::Data;
    made.extents.push_back(rules_.extents[static_cast<std::size_t>(dim)] /
                           (over_replicas ? mesh_[Axis::Data].size : 1));
    elements *= made.extents.back();
  }
  Communication demand;
  demand.wire = derivation::wire_class(moved.element);
  demand.index = static_cast<std::uint32_t>(tensor);
  const bool grows = grows_with_micro_batch(*problem_.network, block_, demand);
  made.subject = moves_->subject(elements, demand.wire, grows ? degrees_.micro_batch : 1);
  made.rates = rates_.of_paths();
  made.price = [this, demand](CommunicationKind kind, AxisSet axes, double size) {
    Communication message = demand;
    message.kind = kind;
    message.axes = axes;
    message.elements = size;
    return time(message);
  };
}

std::shared_ptr<const ReshardingCosts> ChoicePricer::moves(TensorId tensor,
                                                           const ReshardingPrices::Layouts& from,
                                                           const ReshardingPrices::Layouts& to,
                                                           Pairs pairs, ReadsAgain reader) {
  return moves_->price_all(moved_[static_cast<std::size_t>(tensor)], from, to, pairs, reader);
}

bool ChoicePricer::returns(TensorId tensor) const {
  const std::size_t producer = index_.producers[static_cast<std::size_t>(tensor)];
  return block_.tensor(tensor).gradient &&
         (producer == kEdge || !traits(block_.operators[producer]).starts_backward);
}

}  // namespace plansearch
