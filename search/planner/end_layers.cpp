// SPDX-License-Identifier: Apache-2.0
// Computes: the best plans whose first and last stage hold numbers of layers of their own.
// Source: Megatron-LM, megatron/core/transformer/transformer_block.py, get_num_layers_to_build:
//         what the ends do not take is dealt out evenly.
// Assumes: no stage runs faster than its kernels and messages, micro-batch after micro-batch, or
//          needs less than what it holds of micro-batches in flight.
// Units: seconds, bytes, layers.
// Checked by: tests/unit/search/end_layers_test.cpp (equal to pricing every plan)
#include "search/planner/end_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/divisors.hpp"
#include "plan/expand.hpp"
#include "plan/pipeline_shape.hpp"
#include "plansearch/error.hpp"
#include "schedule/simulator.hpp"
#include "search/planner/best_staged.hpp"
#include "search/strategy.hpp"

namespace plansearch {
namespace {

/// Equal stages of some form, `between` layers each but for the ends.
struct EndSplit {
  int form = 0;
  int stages = 0;
  int first = 0;
  int between = 0;
  int last = 0;
  Seconds bound;

  [[nodiscard]] int layers_of(int stage) const {
    return stage == 0 ? first : stage + 1 == stages ? last : between;
  }
};

class EndLayers {
 public:
  EndLayers(const PlanEvaluator& evaluator, const StageRequest& request,
            const SearchOptions& options, MemoryFit admitted)
      : problem_(evaluator.problem()),
        request_(request),
        deadline_(options),
        pricer_(problem_),
        pieces_(layer_pieces(*problem_.network)),
        best_(evaluator, options, admitted, request.slowest) {
    result_.admitted = admitted;
  }

  UnevenResult run() {
    std::vector<int> sizes = divisors(problem_.gpus);
    std::erase(sizes, problem_.gpus);
    for (const auto& [order, degrees] : stage_degrees(problem_, request_, sizes)) {
      look_at(order, degrees);
      if (result_.completeness == Completeness::Stopped) break;
    }
    best_.conclude(result_);
    return std::move(result_);
  }

 private:
  [[nodiscard]] int layers() const { return static_cast<int>(pieces_.size()); }

  [[nodiscard]] std::vector<BlockRun> blocks(int first, int count) const {
    std::vector<BlockRun> runs;
    for (int i = first; i < first + count; ++i) {
      const auto& piece = pieces_[static_cast<std::size_t>(i)];
      runs.insert(runs.end(), piece.begin(), piece.end());
    }
    return joined(runs);
  }

  /// Layers under a form.
  const StagePrice& price(const StageForm& form, int index, int first, int count) {
    // All ranges between the ends hold the same layers in most networks, not in all.
    const auto [place, is_new] = prices_.try_emplace({index, first, count});
    if (is_new) {
      ++result_.counts.stages;
      place->second = pricer_.price(form, blocks(first, count));
    }
    return place->second;
  }

  void look_at(const PipelineOrder& order, const std::vector<PlanDegrees>& degrees) {
    prices_.clear();
    std::vector<StageForm> forms;
    std::vector<EndSplit> splits;
    for (const PlanDegrees& d : degrees) {
      if (deadline_.passed()) {
        result_.completeness = Completeness::Stopped;
        return;
      }
      forms.push_back(pricer_.form(d));
      add_splits(forms.back(), static_cast<int>(forms.size()) - 1, order, splits);
    }
    std::stable_sort(splits.begin(), splits.end(),
                     [](const EndSplit& a, const EndSplit& b) { return a.bound < b.bound; });
    for (const EndSplit& split : splits) {
      if (best_.is_late(split.bound)) return;
      if (deadline_.passed()) {
        result_.completeness = Completeness::Stopped;
        return;
      }
      simulate(order, forms[static_cast<std::size_t>(split.form)], split);
    }
  }

  /// Those whose stages have room for what they hold in flight.
  void add_splits(const StageForm& form, int index, const PipelineOrder& order,
                  std::vector<EndSplit>& splits) {
    const int stages = problem_.gpus / form.devices();
    if (!request_.admits(Degree::Pipeline, stages)) return;
    const std::size_t known = splits.size();
    for (int first = 1; first < layers(); ++first) {
      for (int last = 1; first + last <= layers(); ++last) {
        const int rest = layers() - first - last;
        const int inner = stages - 2;
        if (inner == 0 ? rest != 0 : rest == 0 || rest % inner != 0) continue;
        splits.push_back({index, stages, first, inner == 0 ? 0 : rest / inner, last, {}});
      }
    }
    result_.counts.space += static_cast<double>(splits.size() - known);
    const auto fresh = splits.begin() + static_cast<std::ptrdiff_t>(known);
    if (is_hopeless(form, index, order)) {
      splits.erase(fresh, splits.end());
      return;
    }
    const std::vector<double> in_flight = most_in_flight(order, stages);
    const auto has_no_room = [&](EndSplit& split) {
      return !bound_split(form, order, in_flight, split);
    };
    splits.erase(std::remove_if(fresh, splits.end(), has_no_room), splits.end());
  }

  /// Some stage takes the average of all at least, and needs it.
  bool is_hopeless(const StageForm& form, int index, const PipelineOrder& order) {
    const StagePrice& all = price(form, index, 0, layers());
    const double stages = problem_.gpus / form.devices();
    return (all.fixed + all.activations) / stages > best_.limit() ||
           best_.is_late(all.both() * (order.micro_batches / stages));
  }

  /// The longest stage, micro-batch after micro-batch; false where a stage has no room.
  bool bound_split(const StageForm& form, const PipelineOrder& order,
                   const std::vector<double>& in_flight, EndSplit& split) {
    Seconds longest;
    int from = 0;
    for (int s = 0; s < split.stages; ++s) {
      const int count = split.layers_of(s);
      const StagePrice& stage = price(form, split.form, from, count);
      if (stage.fixed + stage.activations * in_flight[static_cast<std::size_t>(s)] >
          best_.limit()) {
        return false;
      }
      longest = std::max(longest, stage.both());
      from += count;
    }
    split.bound = longest * static_cast<double>(order.micro_batches);
    return true;
  }

  /// Micro-batches whose activations a stage holds at its peak.
  static std::vector<double> most_in_flight(const PipelineOrder& order, int stages) {
    PipelineShape shape;
    shape.schedule = order.schedule;
    shape.micro_batches = order.micro_batches;
    shape.stages = stages;
    std::vector<double> most;
    for (int s = 0; s < stages; ++s) most.push_back(peak_chunks(shape, s));
    return most;
  }

  void simulate(const PipelineOrder& order, const StageForm& form, const EndSplit& split) {
    std::vector<StageDescription> stages(static_cast<std::size_t>(split.stages));
    int next = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const int count = split.layers_of(static_cast<int>(s));
      stages[s].degrees = form.degrees;
      stages[s].degrees.pipeline = 1;
      stages[s].chunks = {blocks(next, count)};
      next += count;
    }
    PlanDegrees family = form.degrees;
    family.pipeline = split.stages;
    best_.offer(plan_of_stages(stages, {order.schedule, order.micro_batches}, problem_.global_batch,
                               *problem_.framework, *problem_.network),
                family);
  }

  const Problem& problem_;
  const StageRequest& request_;
  Deadline deadline_;
  StagePricer pricer_;
  std::vector<std::vector<BlockRun>> pieces_;
  std::map<std::tuple<int, int, int>, StagePrice> prices_;  ///< by form, first layer and count
  BestStaged<PlanDegrees> best_;
  UnevenResult result_;
};

}  // namespace

UnevenResult search_end_layers(const PlanEvaluator& evaluator, const StageRequest& request,
                               const SearchOptions& options) {
  const Framework& framework = *evaluator.problem().framework;
  if (framework.own_layers == OwnLayers::None) {
    throw InputError({}, fmt::format("{} deals layers out by its own rule", framework.name),
                     "--space uneven looks at any layers, whatever the framework's rules");
  }
  return fitting_or_tight(request, [&](MemoryFit admitted) {
    return EndLayers(evaluator, request, options, admitted).run();
  });
}

}  // namespace plansearch
