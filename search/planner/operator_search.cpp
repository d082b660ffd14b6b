// SPDX-License-Identifier: Apache-2.0
// Computes: plans whose operators are cut one by one, the best of every group of degrees.
// Source: the exact choice of a block (intra_op.hpp); steps by PlanEvaluator::evaluate.
// Assumes: layers hand on what is whole over the tensor group; all layers of a block share one
// choice. Units: seconds, elements. Checked by: tests/unit/search/operator_search_test.cpp (equal
// to pricing every choice)
#include "search/planner/operator_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/divisors.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "plan/layer_distribution.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "search/planner/group_degrees.hpp"
#include "search/planner/intra_op.hpp"
#include "search/planner/offers.hpp"

namespace plansearch {
namespace {

/// Shares of its parameters that a device may hold, beside all of them.
constexpr std::array kTighter{0.5, 0.25, 0.125};

/// All blocks of the network under one choice each.
struct NetworkChoice {
  Placements placements;
  Seconds sum;  ///< kernels and messages of one micro-batch, nothing hidden
};

class OperatorSearch : public Strategy {
 public:
  OperatorSearch(const SearchTask& task, SearchRequest request)
      : problem_(task.evaluator.problem()),
        request_(std::move(request)),
        task_(task),
        offers_(task) {}

  void run() override {
    for (const char* missing : {"pipelines", "batch and tokens cut over the tensor group",
                                "layers of one kind that are cut differently"}) {
      task_.result.left_out.emplace_back(missing);
    }
    std::vector<PlanDegrees> groups;
    for (const int tensor : tensor_degrees()) {
      for (const int micro_batch : micro_batches_of(problem_, request_, tensor)) {
        const auto group = group_degrees(problem_, request_, tensor, micro_batch);
        if (group) groups.push_back(*group);
      }
    }
    std::vector<std::optional<std::vector<NetworkChoice>>> choices(groups.size());
    parallel_for(groups.size(), task_.options.threads, [&](std::size_t g) {
      if (!task_.deadline.passed()) choices[g] = choices_of(groups[g]);
    });
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (!choices[g] || task_.deadline.passed()) {
        task_.result.completeness = Completeness::Stopped;
        break;
      }
      offer_group(groups[g], *choices[g]);
    }
  }

  /// The additive sum of the best plan beside its step.
  [[nodiscard]] std::string claim(const PlanCandidate& first) const override {
    const Transform& transform = first.written->transforms.front();
    for (const auto& [degrees, choice] : sums_) {
      if (!(degrees == transform.degrees)) continue;
      if (!(with_merged_factors(choice.placements) == *transform.placements)) continue;
      const Seconds sum = choice.sum * static_cast<double>(degrees.micro_batches);
      return fmt::format(
          "the choice of every layer is exact for the sum of its kernels and messages: {} a "
          "step for plan 1, nothing hidden and no gradients reduced; its step is priced as any "
          "plan's",
          to_text(sum));
    }
    return {};
  }

 private:
  /// Groups inside a node; the group of one device has nothing to choose.
  [[nodiscard]] std::vector<int> tensor_degrees() const {
    std::vector<int> found = values_of(request_, Degree::TensorOut, [&] {
      std::vector<int> sizes = divisors(problem_.gpus);
      std::erase_if(sizes,
                    [&](int size) { return size > problem_.cluster->accelerators_per_node; });
      return sizes;
    });
    std::erase_if(found, [&](int size) { return size < 2 || problem_.gpus % size != 0; });
    return found;
  }

  void offer_group(PlanDegrees degrees, const std::vector<NetworkChoice>& choices) {
    const std::size_t known = sums_.size();
    for (const Recompute level : recomputations_of(request_)) {
      degrees.recompute = level;
      for (const ZeroStage zero : zeros_of(problem_, request_, degrees)) {
        degrees.zero = zero;
        for (const NetworkChoice& choice : choices) sums_.emplace_back(degrees, choice);
      }
    }
    const std::size_t count = sums_.size() - known;
    ++task_.result.families;
    offers_.count(static_cast<double>(count));
    offers_.offer_batch(count, [&](std::size_t i) {
      const auto& [placed, choice] = sums_[known + i];
      PlanDegrees family = placed;
      family.recompute = Recompute::None;
      return Offers::Made{placed_plan(problem_, placed, choice.placements),
                          {family, {placed.tensor_out}}};
    });
  }

  [[nodiscard]] std::vector<NetworkChoice> choices_of(const PlanDegrees& degrees) const {
    std::vector<NetworkChoice> found;
    const auto add = [&](std::optional<NetworkChoice> choice) {
      if (!choice) return;
      const bool known = std::any_of(found.begin(), found.end(), [&](const NetworkChoice& other) {
        return other.placements == choice->placements;
      });
      if (!known) found.push_back(*std::move(choice));
    };
    Splits splits;
    for (std::size_t b = 0; b < problem_.network->blocks.size(); ++b) {
      const bool layer = is_layer(problem_.network->blocks[b].kind);
      splits.push_back(layer ? std::make_unique<OperatorSplit>(problem_, degrees, b) : nullptr);
    }
    add(choose(degrees, splits, 1.0));
    for (const double share : kTighter) add(choose(degrees, splits, share));
    return found;
  }

  /// By block; null for blocks beside layers.
  using Splits = std::vector<std::unique_ptr<OperatorSplit>>;

  /// Every layer at its best with at most this share of its parameters on a device; embedding and
  /// head, which may share a table, by role.
  [[nodiscard]] std::optional<NetworkChoice> choose(const PlanDegrees& degrees,
                                                    const Splits& splits, double share) const {
    const Network& network = *problem_.network;
    NetworkChoice result;
    result.placements.factors = {degrees.tensor_out};
    for (std::size_t b = 0; b < splits.size(); ++b) {
      if (!splits[b]) {
        BlockChoice& by_role = result.placements.blocks.emplace_back();
        by_role.operators.resize(network.blocks[b].operators.size());
        continue;
      }
      const double most = share * (block_parameter_count(network, network.blocks[b]) + 1.0);
      const auto plan = share == 1.0 ? best_split(*splits[b]) : best_split(*splits[b], most);
      if (!plan) return std::nullopt;
      result.placements.blocks.push_back(choice_of(*splits[b], plan->choice, network));
      for (const BlockRun& run : network.order) {
        if (run.block == b) result.sum += plan->time * static_cast<double>(run.count);
      }
    }
    return result;
  }

  const Problem& problem_;
  SearchRequest request_;
  const SearchTask& task_;
  Offers offers_;
  std::vector<std::pair<PlanDegrees, NetworkChoice>> sums_;
};

}  // namespace

BlockChoice choice_of(const OperatorSplit& split, const SplitChoice& choice,
                      const Network& network) {
  BlockChoice result;
  const Block& block = split.block();
  for (std::size_t op = 0; op < block.operators.size(); ++op) {
    const std::vector<DimId>& loop = block.operators[op].loop;
    const bool experts = std::any_of(loop.begin(), loop.end(), [&](DimId dim) {
      const DimRole role = network.dimension(dim).role;
      return role == DimRole::Expert || role == DimRole::Routed || role == DimRole::ExpertFfn;
    });
    auto& cuts = result.operators.emplace_back();
    if (experts) continue;
    cuts.emplace();
    if (choice[op] == kWhole) continue;
    cuts->push_back({loop[static_cast<std::size_t>(choice[op])], FactorList{0}});
  }
  return result;
}

SearchPart operator_part(const SearchRequest& request) {
  if (!request.admits(Degree::Pipeline, 1)) {
    const auto pipeline = request.pinned.get(Degree::Pipeline);
    throw InputError(
        {},
        fmt::format("space operators has no pipeline (pp {})",
                    pipeline ? std::to_string(*pipeline) : request.limits.text(Degree::Pipeline)),
        "leave --pp out, or write the placements into a plan file with pp");
  }
  return {"operators", [request](const SearchTask& task) {
            return std::make_unique<OperatorSearch>(task, request);
          }};
}

}  // namespace plansearch
