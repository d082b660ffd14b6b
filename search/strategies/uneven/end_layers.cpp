// SPDX-License-Identifier: Apache-2.0
// Computes: the best plans whose first and last stage hold numbers of layers of their own.
// Source: Megatron-LM, megatron/core/transformer/transformer_block.py, get_num_layers_to_build:
//         what the ends do not take is dealt out evenly.
// Assumes: no stage runs faster than its kernels and messages, micro-batch after micro-batch, or
//          needs less than what it holds of micro-batches in flight.
// Units: seconds, bytes, layers.
// Checked by: tests/unit/search/end_layers_test.cpp (equal to pricing every plan)
#include "search/strategies/strategy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/checked.hpp"
#include "base/parallel.hpp"
#include "evaluate/step/bound_ladder.hpp"
#include "plansearch/error.hpp"
#include "plansearch/plan_stages.hpp"
#include "schedule/simulation/simulator.hpp"
#include "search/strategies/offers.hpp"
#include "search/strategies/uneven/stage_configs.hpp"

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

/// Bounds of plans by their degrees, for one thread.
struct DegreeBounds {
  explicit DegreeBounds(const PlanEvaluator& evaluator)
      : workspace(PlanEvaluator::make_workspace()), ladder(evaluator, *workspace) {}
  EvaluationWorkspacePtr workspace;
  BoundLadder ladder;
};

/// The splits of one form that have room, bounded. Any number may be made at once.
class FormSplits {
 public:
  FormSplits(const StagePricer& pricer, const LayerRanges& ranges, const PipelineOrder& order,
             const PlanDegrees& degrees, int gpus)
      : pricer_(pricer),
        ranges_(ranges),
        order_(order),
        degrees_(degrees),
        stages_(gpus / degrees.stage_ranks()) {}

  [[nodiscard]] const PlanDegrees& degrees() const { return degrees_; }
  [[nodiscard]] int stages() const { return stages_; }
  [[nodiscard]] std::int64_t plans() const { return plans_; }
  [[nodiscard]] const std::vector<EndSplit>& splits() const { return splits_; }

  void find(int number, const Offers& offers, BoundLadder& ladder) {
    const int layers = ranges_.layers();
    const int inner = stages_ - 2;
    for (int first = 1; first < layers; ++first) {
      for (int last = 1; first + last <= layers; ++last) {
        const int rest = layers - first - last;
        if (inner == 0 ? rest != 0 : rest == 0 || rest % inner != 0) continue;
        splits_.push_back({number, stages_, first, inner == 0 ? 0 : rest / inner, last, {}});
      }
    }
    plans_ = static_cast<std::int64_t>(splits_.size());
    if (is_hopeless(offers, ladder)) return splits_.clear();
    form_ = pricer_.form(degrees_);
    prices_.resize(static_cast<std::size_t>(ranges_.size()));
    if (is_hopeless(offers)) return splits_.clear();
    const std::vector<double> in_flight = most_in_flight();
    std::erase_if(splits_,
                  [&](EndSplit& split) { return !bound(in_flight, offers.limit(), split); });
  }

 private:
  const StagePrice& price(int first, int count) {
    const int number = ranges_.number(first, first + count - 1);
    std::optional<StagePrice>& known = prices_[static_cast<std::size_t>(number)];
    if (!known) known = pricer_.price(form_, ranges_.runs(number));
    return *known;
  }

  /// Some stage takes the average of all at least, and needs it.
  [[nodiscard]] bool is_hopeless(const Offers& offers) {
    const StagePrice& all = price(0, ranges_.layers());
    const double stages = stages_;
    return (all.fixed + all.activations) / stages > offers.limit() ||
           offers.is_late(all.both() * (order_.micro_batches / stages));
  }

  /// The same before the form has a price.
  [[nodiscard]] bool is_hopeless(const Offers& offers, BoundLadder& ladder) const {
    PlanDegrees all = degrees_;
    all.pipeline = 1;
    const double stages = stages_;
    PlanBound bound;
    return ladder.climb(kMicroBatchRungs, all, bound, [&](const PlanBound& b) {
      return b.memory / stages > offers.limit() || offers.is_late(b.step_time / stages);
    });
  }

  /// The longest stage, micro-batch after micro-batch; false where a stage has no room.
  [[nodiscard]] bool bound(const std::vector<double>& in_flight, Bytes limit, EndSplit& split) {
    Seconds longest;
    int from = 0;
    for (int s = 0; s < stages_; ++s) {
      const int count = split.layers_of(s);
      const StagePrice& stage = price(from, count);
      if (stage.fixed + stage.activations * in_flight[static_cast<std::size_t>(s)] > limit) {
        return false;
      }
      longest = std::max(longest, stage.both());
      from += count;
    }
    split.bound = longest * static_cast<double>(order_.micro_batches);
    return true;
  }

  /// Micro-batches whose activations a stage holds at its peak.
  [[nodiscard]] std::vector<double> most_in_flight() const {
    PipelineShape shape;
    shape.schedule = order_.schedule;
    shape.micro_batches = order_.micro_batches;
    shape.stages = stages_;
    std::vector<double> most;
    for (int s = 0; s < stages_; ++s) most.push_back(peak_chunks(shape, s));
    return most;
  }

  const StagePricer& pricer_;
  const LayerRanges& ranges_;
  const PipelineOrder& order_;
  PlanDegrees degrees_;
  StageConfig form_;  ///< once it may be worth a price
  int stages_;
  std::int64_t plans_ = 0;
  std::vector<EndSplit> splits_;
  std::vector<std::optional<StagePrice>> prices_;  ///< by number of the range
};

class EndLayers : public Strategy {
 public:
  EndLayers(const SearchTask& task, SearchRequest request)
      : problem_(task.evaluator.problem()),
        request_(std::move(request)),
        task_(task),
        pricer_(task.evaluator.views()),
        ranges_(layer_runs(*problem_.network), *problem_.network, problem_.framework->skips),
        offers_(task),
        bounds_([&task] { return std::make_unique<DegreeBounds>(task.evaluator); }) {}

  void run() override {
    task_.result.left_out.emplace_back(kOrdersLeftOut);
    std::vector<int> sizes = divisors(problem_.gpus);
    std::erase(sizes, problem_.gpus);
    for (const auto& [order, degrees] : stage_degrees(problem_, request_, sizes)) {
      search_order(order, degrees);
    }
  }

 private:
  void search_order(const PipelineOrder& order, const std::vector<PlanDegrees>& degrees) {
    std::vector<std::unique_ptr<FormSplits>> forms(degrees.size());
    parallel_for(degrees.size(), task_.options.threads, [&](std::size_t i) {
      forms[i] = bounds_.with([&](auto& bounds) {
        auto form =
            std::make_unique<FormSplits>(pricer_, ranges_, order, degrees[i], problem_.gpus);
        if (request_.admits(Degree::Pipeline, form->stages())) {
          form->find(static_cast<int>(i), offers_, bounds->ladder);
        }
        return form;
      });
    });
    std::vector<EndSplit> splits;
    for (const auto& form : forms) {
      if (form->plans() == 0) continue;
      ++task_.result.families;
      offers_.count(static_cast<double>(form->plans()));
      splits.insert(splits.end(), form->splits().begin(), form->splits().end());
    }
    std::stable_sort(splits.begin(), splits.end(),
                     [](const EndSplit& a, const EndSplit& b) { return a.bound < b.bound; });
    for (std::size_t next = 0; next < splits.size() && !offers_.is_late(splits[next].bound);
         next += Offers::kBatch) {
      const std::size_t count = std::min(Offers::kBatch, splits.size() - next);
      offers_.offer_batch(count, [&](std::size_t i) {
        const EndSplit& split = splits[next + i];
        return made(order, forms[static_cast<std::size_t>(split.form)]->degrees(), split);
      });
    }
  }

  [[nodiscard]] Offers::Made made(const PipelineOrder& order, const PlanDegrees& degrees,
                                  const EndSplit& split) const {
    std::vector<StageDescription> stages(static_cast<std::size_t>(split.stages));
    int next = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const int count = split.layers_of(static_cast<int>(s));
      stages[s].degrees = degrees;
      stages[s].degrees.pipeline = 1;
      stages[s].chunks = {ranges_.runs(ranges_.number(next, next + count - 1)).blocks};
      next += count;
    }
    PlanDegrees family = degrees;
    family.pipeline = split.stages;
    return {plan_of_stages(stages, {order.schedule, order.micro_batches}, problem_.global_batch,
                           *problem_.framework, *problem_.network),
            {family, {split.stages}}};
  }

  const Problem& problem_;
  SearchRequest request_;
  const SearchTask& task_;
  StagePricer pricer_;
  LayerRanges ranges_;
  Offers offers_;
  Pool<std::unique_ptr<DegreeBounds>> bounds_;
};

}  // namespace

SearchPart end_layers_part(const Problem& problem, const SearchRequest& request) {
  const Framework& framework = *problem.framework;
  if (framework.own_layers == OwnLayers::None) {
    throw InputError({}, fmt::format("{} deals layers out by its own rule", framework.name),
                     "--space uneven searches any layers, whatever the framework's rules");
  }
  return {"layers",
          [request](const SearchTask& task) { return std::make_unique<EndLayers>(task, request); }};
}

}  // namespace plansearch
