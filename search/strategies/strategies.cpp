// SPDX-License-Identifier: Apache-2.0
// One row a space whose plans are more than degrees; search/space/named_spaces.cpp describes all.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "partition/partition_options.hpp"
#include "plansearch/error.hpp"
#include "search/strategies/strategy.hpp"

namespace plansearch {
namespace {

/// Question that parts are made for.
struct Question {
  const PlanEvaluator& evaluator;
  const SearchRequest& request;

  [[nodiscard]] const Problem& problem() const { return evaluator.problem(); }
  [[nodiscard]] const Framework& framework() const { return *problem().framework; }
  /// Stages of their own are placed for one forward pass: their orders know of no other.
  [[nodiscard]] bool passes_once() const { return problem().network->forwards == 1; }
  [[nodiscard]] bool runs(OperatorSteps steps) const {
    return runs_steps(framework().operator_steps, steps);
  }
};

using Parts = std::vector<SearchPart>;
using Walk = std::shared_ptr<const LegalWalk>;

/// Null where the request leaves no plan of that space of degrees.
Walk walk_of(const Question& question, std::string_view space) {
  auto made =
      make_space(space, question.problem(), question.request.pinned, question.request.limits);
  auto* found = std::get_if<SearchSpace>(&made);
  return found == nullptr
             ? nullptr
             : std::make_shared<const LegalWalk>(question.evaluator, std::move(*found));
}

void add_degrees(const Walk& walk, Parts& parts) {
  if (walk) parts.push_back(degree_part(walk->space().space().name, walk));
}

[[noreturn]] void refuse_steps(const Framework& framework, const std::string& hint) {
  throw InputError({}, fmt::format("{} runs no operator in steps (operator_steps)", framework.name),
                   fmt::format("{}; --space operators cuts them without steps", hint));
}

Parts layers(const Question& question) {
  Parts parts;
  add_degrees(walk_of(question, "framework"), parts);
  if (question.passes_once()) {
    parts.push_back(end_layers_part(question.problem(), question.request));
  }
  return parts;
}

Parts operators(const Question& question) {
  SearchRequest request = question.request;
  if (!request.admits(Degree::Pipeline, 1)) {
    const auto pipeline = request.pinned.get(Degree::Pipeline);
    throw InputError(
        {},
        fmt::format("space operators has no pipeline (pp {})",
                    pipeline ? std::to_string(*pipeline) : request.limits.text(Degree::Pipeline)),
        "leave --pp out, or write the placements into a plan file with pp");
  }
  request.pinned.pin(Degree::Pipeline, 1);
  return {sequence_part("operators", request, PartitionSpace::OneDimension)};
}

Parts primepar(const Question& question) {
  if (!question.runs(OperatorSteps::Squares)) {
    refuse_steps(question.framework(), "--framework primepar does");
  }
  return {sequence_part("primepar", question.request, PartitionSpace::Paper)};
}

/// Pipelines of every depth of a walk, where nothing is said of them.
SearchRequest with_pipelines(SearchRequest request, const Walk& walk) {
  if (request.is_open(Degree::Pipeline) && walk) {
    request.limits.allow(Degree::Pipeline,
                         walk->space().space().dimension(Degree::Pipeline).values);
  }
  return request;
}

Parts temporal(const Question& question) {
  if (question.framework().operator_steps == OperatorSteps::None) {
    refuse_steps(question.framework(),
                 "--framework primepar (squares) and torchtitan-async-tp (rings) do");
  }
  const Walk walk = walk_of(question, "framework");
  Parts parts;
  add_degrees(walk, parts);  // first: no answer is worse, and late groups are seen at once
  if (question.runs(OperatorSteps::Squares)) {
    parts.push_back(
        sequence_part("temporal", with_pipelines(question.request, walk), PartitionSpace::All));
  }
  return parts;
}

Parts full(const Question& question) {
  const Walk walk = walk_of(question, "4d");
  Parts parts;
  add_degrees(walk, parts);  // equal stages first: no answer is worse
  if (question.framework().own_layers != OwnLayers::None && question.passes_once()) {
    parts.push_back(end_layers_part(question.problem(), question.request));
  }
  if (runs_squares(question.framework(), question.request)) {
    parts.push_back(
        sequence_part("temporal", with_pipelines(question.request, walk), PartitionSpace::All));
  }
  if (question.framework().own_layers == OwnLayers::Every &&
      question.passes_once()) {  // last: it may end early
    parts.push_back(uneven_part(question.request));
  }
  return parts;
}

Parts uneven(const Question& question) {
  if (!question.passes_once()) {
    throw InputError(
        {},
        fmt::format("space uneven orders one forward pass, and micro-batches pass {} {} "
                    "times",
                    question.problem().network->name, question.problem().network->forwards),
        "--space framework; equal stages take --schedule 3f1b");
  }
  return {uneven_part(question.request)};
}

/// How a space cuts the operators of a tensor group.
enum class Cuts { ByRole, OneByOne, InSteps };

struct StagedSpace {
  std::string_view name;
  Parts (*parts)(const Question& question);
  Cuts cuts;
};

constexpr std::array kStagedSpaces{
    StagedSpace{"layers", layers, Cuts::ByRole},
    StagedSpace{"operators", operators, Cuts::OneByOne},
    StagedSpace{"primepar", primepar, Cuts::InSteps},
    StagedSpace{"temporal", temporal, Cuts::InSteps},
    StagedSpace{"full", full, Cuts::InSteps},
    StagedSpace{"uneven", uneven, Cuts::ByRole},
};

/// Values that plans can have whose operators are placed: squares take whole groups of devices and
/// leave no tokens to spread; tensors go to the host where the user says so. False where no group
/// is left.
[[nodiscard]] bool keep_decided(const SearchRequest& request, SearchSpace& space) {
  if (request.is_open(Degree::Offload)) space.dimension(Degree::Offload).values = {0};
  if (request.square == 0) return true;
  std::vector<int>& groups = space.dimension(Degree::TensorOut).values;
  std::erase_if(groups, [&](int ranks) { return ranks % (request.square * request.square) != 0; });
  space.dimension(Degree::SequenceParallel).values = {static_cast<int>(SequenceParallel::Off)};
  space.dimension(Degree::Temporal).values = {static_cast<int>(Temporal::None)};
  return !groups.empty();
}

/// A search that was stopped before its first plan answers with the best one of equal stages, which
/// takes a tenth of a second.
void take_equal_stages(const Walk& walk, const PlanEvaluator& evaluator,
                       const SearchOptions& options, SearchResult& result) {
  const LastMoment moment(std::chrono::seconds(1));
  SearchOptions one = options;
  one.top = 1;
  one.misses = 0;
  SearchResult found = run_search({degree_part("framework", walk)}, evaluator, one, nullptr);
  if (found.ranked.empty()) return;
  found.ranked.resize(1);
  result.ranked = std::move(found.ranked);
  result.admitted = found.admitted;
  result.front = std::move(found.front);
}

const StagedSpace* find(std::string_view name) {
  const auto* row = std::find_if(kStagedSpaces.begin(), kStagedSpaces.end(),
                                 [&](const StagedSpace& space) { return space.name == name; });
  return row == kStagedSpaces.end() ? nullptr : row;
}

}  // namespace

std::variant<SearchResult, Infeasible> search(const PlanEvaluator& evaluator,
                                              std::string_view space, const SearchRequest& request,
                                              const SearchOptions& options) {
  const StagedSpace* row = find(space);
  if (request.placements || request.square > 0 || !request.shared_blocks.empty()) {
    const bool squares = request.square > 0 && row != nullptr && row->cuts == Cuts::InSteps;
    if (squares) space = "4d";  // and squares take the place of what finds steps
    if (row != nullptr && !squares) {
      throw InputError({}, fmt::format("space {} finds what the plan decides", space),
                       "--space framework, megatron or 4d: what is left open is degrees");
    }
    auto made = make_space(space, evaluator.problem(), request.pinned, request.limits);
    if (auto* infeasible = std::get_if<Infeasible>(&made)) return std::move(*infeasible);
    if (!keep_decided(request, std::get<SearchSpace>(made))) {
      return Infeasible{.obstacle = Obstacle::DegreesDoNotMultiply,
                        .detail = fmt::format("squares of {0} x {0} devices: no tensor degree is a "
                                              "multiple of {1}",
                                              request.square, request.square * request.square)};
    }
    const auto walk =
        std::make_shared<const LegalWalk>(evaluator, std::get<SearchSpace>(std::move(made)));
    SearchResult result =
        run_search({constrained_part(walk, request)}, evaluator, options, nullptr);
    result.space = space;
    return result;
  }
  if (row == nullptr) {
    auto made = make_space(space, evaluator.problem(), request.pinned, request.limits);
    if (auto* infeasible = std::get_if<Infeasible>(&made)) return std::move(*infeasible);
    return search(evaluator, std::get<SearchSpace>(made), options);
  }
  const Question question{evaluator, request};
  const Parts parts = row->parts(question);
  // Plans of degrees stand for all that exceed memory.
  const Walk walk = walk_of(question, "framework");
  SearchResult result = run_search(parts, evaluator, options, walk.get());
  if (result.completeness == Completeness::Stopped && result.ranked.empty() && walk) {
    take_equal_stages(walk, evaluator, options, result);
  }
  result.space = space;
  return result;
}

bool cuts_one_by_one(std::string_view space, const Framework& framework) {
  const StagedSpace* row = find(space);
  if (row == nullptr) return false;
  return row->cuts == Cuts::OneByOne ||
         (row->cuts == Cuts::InSteps &&
          runs_steps(framework.operator_steps, OperatorSteps::Squares));
}

}  // namespace plansearch
