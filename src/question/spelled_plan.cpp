// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "plan/legality/legality.hpp"
#include "plan/placements/check_placements.hpp"
#include "plan/placements/ring_placements.hpp"
#include "plan/stages/assign.hpp"
#include "plan/stages/layer_distribution.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/placements.hpp"
#include "plansearch/plan_stages.hpp"
#include "question/degrees.hpp"
#include "question/framework_flags.hpp"
#include "question/resolve_plan.hpp"
#include "schedule/order/stage_places.hpp"

namespace plansearch {

namespace {

/// Turns the stages of a file into those of a plan.
class SpelledPlan {
 public:
  SpelledPlan(const io::StagesDocument& document, const Problem& problem, bool placed)
      : document_(document), problem_(problem), placed_(placed), stages_(document.stages.size()) {}

  ParallelPlan make() {
    chunks_ = document_.stages.front().chunks.size();
    for (const io::StageEntry& stage : document_.stages) check_form(stage);
    order_.micro_batches = document_.micro_batches;
    order_.schedule = document_.schedule.value_or(
        default_schedule(*problem_.framework, *problem_.network, static_cast<int>(stages_.size()),
                         static_cast<int>(chunks_)));
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      stages_[s].first_rank = document_.stages[s].first_rank;
      stages_[s].degrees = degrees_of(document_.stages[s]);
      stages_[s].chunks.assign(chunks_, {});
    }
    by_layers_ ? place_by_layers() : place_by_name();
    auto plan = plan_of_stages(stages_, order_, problem_.global_batch, *problem_.framework,
                               *problem_.network);
    if (const auto* bad = std::get_if<Infeasible>(&plan)) refuse(*bad);
    check_ranks(std::get<ParallelPlan>(plan));
    return std::get<ParallelPlan>(std::move(plan));
  }

 private:
  /// All stages have as many chunks, and say in one way what they hold.
  void check_form(const io::StageEntry& stage) {
    const SourceLocation& where = stage.place.where;
    if (stage.chunks.size() != chunks_) {
      throw InputError(
          where, fmt::format("{} chunks, the first stage has {}", stage.chunks.size(), chunks_),
          "all stages have as many chunks");
    }
    for (const io::ChunkEntry& chunk : stage.chunks) {
      const bool layers = chunk.layers.has_value();
      if (&chunk == document_.stages.front().chunks.data()) by_layers_ = layers;
      if (layers == by_layers_) continue;
      throw InputError(where, "some stages count layers, others name blocks",
                       "use either `layers` or `blocks` in all stages");
    }
  }

  PlanDegrees degrees_of(const io::StageEntry& stage) const {
    PlanDegrees degrees = with_pinned({}, stage.degrees);
    degrees.pipeline = static_cast<int>(stages_.size());
    degrees.chunks = static_cast<int>(chunks_);
    degrees.schedule = order_.schedule;
    degrees.micro_batches = order_.micro_batches;
    if (degrees.tensor() == 1) degrees.sequence_parallel = SequenceParallel::Off;
    if (stage.degrees.has(Degree::Zero)) return degrees;
    for (const ZeroStage zero : kZeroPreference) {
      PlanDegrees tried = degrees;
      tried.zero = zero;
      if (placed_) tried.tensor_out = 1;
      if (check_transform(tried, *problem_.network, *problem_.framework, problem_.precision))
        continue;
      tried.tensor_out = degrees.tensor_out;
      return tried;
    }
    return degrees;
  }

  [[nodiscard]] PipelineShape shape() const {
    return pipeline_shape(stages_.front().degrees, *problem_.framework, *problem_.network);
  }

  void place_by_layers() {
    if (const auto bad = obstacle_of(shape())) refuse(*bad);
    const auto places = stage_places(shape()).first(stages_.size() * chunks_);
    std::vector<std::int64_t> layers;
    for (const StagePlace& place : places) layers.push_back(*entry(place).layers);
    const auto placed = place_layers(*problem_.network, layers);
    if (const auto* bad = std::get_if<Infeasible>(&placed)) refuse(*bad);
    const auto& runs = std::get<StageRuns>(placed);
    for (std::size_t k = 0; k < places.size(); ++k) {
      if (runs[k].empty()) {
        throw InputError(document_.stages[static_cast<std::size_t>(places[k].device)].place.where,
                         fmt::format("stage {} has nothing to do", places[k].device),
                         "give it a layer, or blocks: [] if it is meant to be idle");
      }
      held_at(places[k]) = runs[k];
    }
  }

  /// Blocks whose layers are cut differently are named as one, and taken in the order in which
  /// micro-batches pass them.
  void place_by_name() {
    if (const auto bad = obstacle_of(shape())) refuse(*bad);
    const std::vector<BlockCopy> copies = block_copies(*problem_.network);
    std::map<std::string, std::size_t> next;  // place in `copies` after the last one taken
    for (const StagePlace& place : stage_places(shape()).first(stages_.size() * chunks_)) {
      const SourceLocation& where =
          document_.stages[static_cast<std::size_t>(place.device)].place.where;
      for (const NamedBlocks& named : entry(place).blocks) {
        if (const auto block = only_block(named.block)) {
          held_at(place).push_back({*block, named.count});
          continue;
        }
        std::size_t& at = next[named.block];
        for (std::int64_t left = named.count; left > 0; ++at) {
          if (at == copies.size()) refuse_block(named, where);
          const std::size_t block = copies[at].block;
          if (plain_block_name(problem_.network->blocks[block].name) != named.block) continue;
          held_at(place).push_back({block, 1});
          --left;
        }
      }
    }
  }

  /// Nothing where several blocks have the name, or none.
  [[nodiscard]] std::optional<std::size_t> only_block(const std::string& name) const {
    const auto& blocks = problem_.network->blocks;
    std::optional<std::size_t> found;
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      if (blocks[b].name != name) continue;
      if (found) return std::nullopt;
      found = b;
    }
    return found;
  }

  [[noreturn]] void refuse_block(const NamedBlocks& named, const SourceLocation& where) const {
    std::vector<std::string> names;
    for (const Block& block : problem_.network->blocks) {
      std::string name = plain_block_name(block.name);
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
    const bool known = std::ranges::find(names, named.block) != names.end();
    throw InputError(where,
                     known
                         ? fmt::format("{} has fewer copies of '{}' than the stages name",
                                       problem_.network->name, named.block)
                         : fmt::format("{} has no block '{}'", problem_.network->name, named.block),
                     fmt::format("its blocks are {}", fmt::join(names, ", ")));
  }

  /// Where a file names all devices of a stage, they lie as the mesh of its degrees.
  void check_ranks(const ParallelPlan& plan) const {
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const io::StageEntry& stage = document_.stages[s];
      if (stage.devices.empty()) continue;
      std::vector<int> ranks = ranks_of(plan, static_cast<int>(s));
      std::ranges::sort(ranks);
      if (ranks == stage.devices) continue;
      const PlanDegrees& degrees = stages_[s].degrees;
      std::string message =
          fmt::format("{} devices, and degrees for {}", stage.devices.size(), ranks.size());
      if (ranks.size() == stage.devices.size()) {
        message = "these devices do not lie as the rank order places the degrees";
      }
      std::vector<std::string> legal;
      for (const DeviceRange& range : device_ranges(ranks)) legal.push_back(to_text(range));
      throw InputError(
          stage.place.where, message,
          fmt::format("dp {} x cp {} x tp {} from rank {} on are {}", degrees.data, degrees.context,
                      degrees.tensor(), stage.devices.front(), fmt::join(legal, ", ")));
    }
  }

  [[nodiscard]] const io::ChunkEntry& entry(const StagePlace& place) const {
    return document_.stages[static_cast<std::size_t>(place.device)]
        .chunks[static_cast<std::size_t>(place.chunk)];
  }
  std::vector<BlockRun>& held_at(const StagePlace& place) {
    return stages_[static_cast<std::size_t>(place.device)]
        .chunks[static_cast<std::size_t>(place.chunk)];
  }

  [[noreturn]] void refuse(const Infeasible& bad) const {
    throw InputError(place_of(bad, document_),
                     fmt::format("{}: {}", to_text(bad.obstacle), bad.detail), hint_for(bad));
  }

  static std::string hint_for(const Infeasible& bad) {
    if (std::string legal = legal_values_text(bad); !legal.empty()) return legal;
    switch (bad.obstacle) {
      case Obstacle::LayersNotDivisible:
        return "the layers of all stages sum to those of the network";
      case Obstacle::BatchNotDivisible:
        return "batch is a multiple of micro_batches x dp x tp_z of every stage";
      default:
        return {};
    }
  }

  const io::StagesDocument& document_;
  const Problem& problem_;
  bool placed_;
  std::vector<StageDescription> stages_;
  Order order_;
  std::size_t chunks_ = 1;
  bool by_layers_ = true;
};

/// Makes the layers that are cut differently blocks of their own. The tensor degree is the same in
/// all stages.
Placements resolved(const io::PlacementsDocument& document, const PlanDegrees& degrees,
                    Problem& problem) {
  auto made = resolve_placements(document.names, *problem.network, degrees, *problem.framework);
  if (const auto* fault = std::get_if<PlacementFault>(&made)) {
    throw InputError(document.where(*fault), fault->message, fault->hint);
  }
  auto& distinguished = std::get<DistinguishedNetwork>(made);
  problem.network = std::move(distinguished.network);
  return std::move(distinguished.placements);
}

/// The framework runs no operators in pieces; its hint names those that do.
std::optional<Infeasible> pieces_fault(const Framework& framework) {
  auto bad = check_pieces(framework);
  if (bad) bad->legal_words = run_by([](const Framework& other) { return other.runs_pieces; });
  return bad;
}

}  // namespace

SourceLocation place_of(const Infeasible& infeasible, const io::StagesDocument& document) {
  if (infeasible.stage) {
    return document.stages[static_cast<std::size_t>(*infeasible.stage)].place.where;
  }
  const bool order = infeasible.obstacle == Obstacle::ScheduleNeedsMicroBatches;
  return order ? document.order.where : document.place.where;
}

ParallelPlan spelled_plan(const io::StagesDocument& document, const Problem& problem, bool placed) {
  return SpelledPlan(document, problem, placed).make();
}

std::optional<Infeasible> steps_fault(const Framework& framework, OperatorSteps steps) {
  auto bad = check_steps(framework, steps);
  if (!bad) return bad;
  bad->legal_words =
      run_by([&](const Framework& other) { return runs_steps(other.operator_steps, steps); });
  return bad;
}

PlacedOperators placed_operators(const PlanRequest& asked, const PlanDegrees& degrees,
                                 Problem& problem) {
  const std::string& square = asked.request.square;
  if (square.empty()) {
    return {resolved(*asked.placements, degrees, problem), asked.placements->place.where};
  }
  auto made = square_placements(*problem.network, degrees, square_side(square));
  if (const auto* fault = std::get_if<PlacementFault>(&made)) {
    throw InputError({}, fmt::format("--temporal {}: {}", square, fault->message), fault->hint);
  }
  const io::PlacementsDocument all{std::get<PlacementNames>(std::move(made)), {}, {}, {}};
  return {resolved(all, degrees, problem), {}};
}

std::optional<PlanFault> place_operators(const PlacedOperators& operators, ResolvedPlan& given) {
  const Problem& problem = given.problem;
  const Placements& placements = operators.placements;
  auto placed =
      with_placements(std::move(given.plan), placements, *problem.network, *problem.framework);
  if (const auto* bad = std::get_if<Infeasible>(&placed)) {
    return PlanFault{*bad, operators.where, true};
  }
  given.plan = std::get<ParallelPlan>(std::move(placed));
  std::optional<Infeasible> bad;
  if (placements.in_pieces()) bad = pieces_fault(*problem.framework);
  if (!bad && placements.over_squares()) {
    bad = steps_fault(*problem.framework, OperatorSteps::Squares);
  } else if (!bad && placements.over_rings()) {
    bad = steps_fault(*problem.framework, OperatorSteps::Rings);
  }
  if (!bad) return std::nullopt;
  return PlanFault{*std::move(bad), operators.where};
}

void place_in_all(const io::PlacementsDocument& document, ResolvedQuestion& question) {
  PlanDegrees degrees;
  for (const int factor : document.names.factors) degrees.tensor_out *= factor;
  if (degrees.tensor_out > 1) question.request.degrees.pin(Degree::TensorOut, degrees.tensor_out);
  question.placements =
      std::make_shared<const Placements>(resolved(document, degrees, question.problem));
  if (!question.placements->in_pieces()) return;
  if (const auto bad = pieces_fault(*question.problem.framework)) {
    throw InputError(document.place.where, bad->detail, legal_values_text(*bad));
  }
}

}  // namespace plansearch
