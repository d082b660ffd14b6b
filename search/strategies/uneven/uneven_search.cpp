// SPDX-License-Identifier: Apache-2.0
// Computes: the fastest plans of unequal stages.
// Source: best-first search over partial plans; bounds of stage_catalog.hpp, and of whole plans the
//         simulation of their stages as priced alone; those that may be ranked by
//         PlanEvaluator::evaluate.
// Assumes: what a partial plan is bounded by holds for all its continuations: simulation and
//          memory are monotone in the durations and bytes of stages.
// Units: seconds, bytes.
// Checked by: tests/unit/search/uneven_search_test.cpp (equal to pricing every plan).
#include "search/strategies/strategy.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <memory>
#include <queue>
#include <utility>

#include "base/parallel.hpp"
#include "evaluate/step/priced_program.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "schedule/simulation/simulator.hpp"
#include "search/strategies/offers.hpp"
#include "search/strategies/uneven/partial_plan.hpp"
#include "search/strategies/uneven/stage_catalog.hpp"

namespace plansearch {
namespace {

/// Partial plans that are remembered.
constexpr std::size_t kMostPartials = 4'000'000;

/// Continuations that are bounded: layers with very many configurations take as long as others.
constexpr std::int64_t kMostBounded = 40'000'000;

/// Whole plans that are priced without finding a faster one: bounds do not tell them from the best.
constexpr std::int64_t kMostInVain = 5'000;

/// Choices that need a whole plan: messages to each of its stages from the one before, where both
/// lie, and the reductions of parameters that stages share.
struct Placement {
  std::vector<StageTransfer> incoming;
  std::vector<Seconds> shared;
};

/// A partial plan in the queue, the least bound first; of equal ones orders that were not begun,
/// longer plans, plans of later orders, the later ones.
struct Promise {
  Seconds bound;
  int partial = 0;
  int order = 0;  ///< of plans of one stage their order, of others a larger number
  bool operator<(const Promise& other) const {
    return bound != other.bound ? bound > other.bound
                                : std::pair(order, partial) < std::pair(other.order, other.partial);
  }
};

/// When the last stage has reduced its gradients, what optimizers take, and when the last has ended
/// if none waits for another.
struct StepEnds {
  Seconds reduced;
  Seconds after;
  Seconds apart;
  void add(Seconds own, Seconds optimizer) {
    reduced = std::max(reduced, own);
    after = std::max(after, optimizer);
    apart = std::max(apart, own + optimizer);
  }
};

/// The catalogue of one order, and the bounds of what is left: made where the order may be best.
struct OrderCatalog {
  std::unique_ptr<StageCatalog> catalog;
  std::unique_ptr<StageBounds> bounds;
};

class UnevenSearch : public Strategy {
 public:
  UnevenSearch(const SearchTask& task, SearchRequest request, std::int64_t most_extended)
      : problem_(task.evaluator.problem()),
        task_(task),
        pricer_(task.evaluator.views()),
        offers_(task),
        ranges_(layer_runs(*problem_.network), *problem_.network, problem_.framework->skips),
        most_extended_(most_extended),
        request_(std::move(request)) {
    task_.result.left_out.emplace_back(kOrdersLeftOut);
    for (int stages = 1; stages <= ranges_.layers(); ++stages) {
      if (request_.admits(Degree::Pipeline, stages)) most_stages_ = stages;
    }
  }

  void run() override {
    list_orders();
    price_stages(StageCatalog::Which::Equal);
    offer_equal_stages();
    partials_.clear();
    price_stages(StageCatalog::Which::All);
    for (std::size_t c = 0; c < catalogs_.size(); ++c) {
      const Seconds least = catalogs_[c].catalog->least_time();
      if (least.value() == std::numeric_limits<double>::infinity()) continue;
      Partial start;
      start.catalog = static_cast<int>(c);
      partials_.push_back(start);
      constexpr int kFirst = std::numeric_limits<int>::max();
      queue_.push({least * kRounding * kRounding, static_cast<int>(partials_.size()) - 1, kFirst});
    }
    while (!queue_.empty()) {
      const Promise next = queue_.top();
      if (offers_.is_late(next.bound)) break;
      const bool enough = extended_ >= most_extended_ || bounded_ >= kMostBounded ||
                          partials_.size() >= kMostPartials || in_vain_ >= kMostInVain ||
                          stop_reason() != StopReason::None;
      if (enough) {
        // Those behind the fastest of all strategies were only priced for the ranking.
        const auto fastest = task_.ranking.fastest();
        if (fastest && next.bound > *fastest) break;
        task_.result.completeness = Completeness::Stopped;
        task_.result.bound = next.bound;
        break;
      }
      queue_.pop();
      task_.result.bound = next.bound;
      const Partial partial = partials_[static_cast<std::size_t>(next.partial)];
      if (partial.last + 1 == layers()) {
        const Chain chain = chain_of(partials_[static_cast<std::size_t>(next.partial)]);
        if (!has_equal_stages(chain)) simulate(chain, next.bound);
        continue;
      }
      auto& bounds = catalogs_[static_cast<std::size_t>(partial.catalog)].bounds;
      if (!bounds) {
        bounds = std::make_unique<StageBounds>(catalog_of(partial), problem_.gpus,
                                               task_.options.threads);
      }
      extend(partial, partial.last < 0 ? -1 : next.partial);
    }
    if (task_.result.completeness == Completeness::Optimal) task_.result.bound = {};
    task_.result.families += extended_;
  }

 private:
  /// The catalogue of every order, without prices.
  void list_orders() {
    const auto sizes = submesh_sizes(problem_.cluster->accelerators_per_node, problem_.gpus);
    const auto degrees = stage_degrees(problem_, request_, sizes);
    const std::vector<std::pair<PipelineOrder, std::vector<PlanDegrees>>> orders(degrees.begin(),
                                                                                 degrees.end());
    catalogs_.resize(orders.size());
    for (std::size_t i = 0; i < orders.size(); ++i) {
      check_stop();
      catalogs_[i].catalog = std::make_unique<StageCatalog>(pricer_, problem_, orders[i].first,
                                                            orders[i].second, ranges_);
      offers_.count(catalogs_[i].catalog->plans());
    }
  }

  /// Orders differ very much in their work: threads share that of each.
  void price_stages(StageCatalog::Which which) {
    for (const OrderCatalog& order : catalogs_) {
      check_stop();
      const double micro_batches = order.catalog->order().micro_batches;
      const auto is_late = [&](Seconds both) {
        return offers_.is_late(both * micro_batches * kRounding * kRounding);
      };
      order.catalog->price(which, offers_.limit(), is_late, task_.options.threads);
    }
  }

  /// The same form on all devices, the same number of layers in every stage: no answer is worse
  /// than the best of these, however soon the search ends.
  void offer_equal_stages() {
    std::vector<Promise> found;
    for (std::size_t c = 0; c < catalogs_.size(); ++c) {
      const StageCatalog& catalog = *catalogs_[c].catalog;
      for (int layout = 0; layout < catalog.layouts(); ++layout) {
        const int stages = problem_.gpus / catalog.devices_of(layout);
        const bool divides = problem_.gpus % catalog.devices_of(layout) == 0 &&
                             stages <= layers() && layers() % stages == 0;
        if (!divides) continue;
        for (const PricedStage& first : catalog.stages(0, layers() / stages - 1, layout)) {
          const std::size_t known = partials_.size();
          if (add_equal_stages(static_cast<int>(c), layout, first.form)) {
            const Chain chain = chain_of(partials_.back());
            if (has_asked_stages(chain) && least_memory(chain) <= offers_.limit()) {
              found.push_back({bound_of(chain), static_cast<int>(partials_.size()) - 1, 0});
              continue;
            }
          }
          partials_.resize(known);
        }
      }
    }
    std::sort(found.rbegin(), found.rend());
    for (const Promise& next : found) {
      if (offers_.is_late(next.bound) || stop_reason() != StopReason::None) break;
      simulate(chain_of(partials_[static_cast<std::size_t>(next.partial)]), next.bound);
    }
  }

  /// False where another form is always better for some of the stages.
  bool add_equal_stages(int number, int layout, int form) {
    const StageCatalog& catalog = *catalogs_[static_cast<std::size_t>(number)].catalog;
    const int devices = catalog.devices_of(layout);
    const int each = layers() / (problem_.gpus / devices);
    for (int first = 0; first < layers(); first += each) {
      const int before = first == 0 ? -1 : static_cast<int>(partials_.size()) - 1;
      Partial stage{number, before, first, first + each - 1, (first / each + 1) * devices};
      const auto& priced = catalog.stages(stage.first, stage.last, layout);
      const auto same = std::find_if(priced.begin(), priced.end(),
                                     [&](const PricedStage& one) { return one.form == form; });
      if (same == priced.end()) return false;
      stage.stage = &*same;
      if (first > 0) stage.incoming = catalog.transfer(layout, layout, first - 1);
      partials_.push_back(stage);
    }
    return true;
  }

  /// Whether a whole plan is among those of `offer_equal_stages`, simulated there or late already.
  [[nodiscard]] static bool has_equal_stages(const Chain& chain) {
    const Partial& front = *chain.front();
    return std::all_of(chain.begin(), chain.end(), [&](const Partial* stage) {
      return stage->stage->form == front.stage->form &&
             stage->last - stage->first == front.last - front.first;
    });
  }

  [[nodiscard]] int layers() const { return ranges_.layers(); }
  [[nodiscard]] const StageCatalog& catalog_of(const Partial& partial) const {
    return *catalogs_[static_cast<std::size_t>(partial.catalog)].catalog;
  }

  [[nodiscard]] Chain chain_of(const Partial& end) const {
    Chain chain{&end};
    while (chain.back()->before >= 0) {
      chain.push_back(&partials_[static_cast<std::size_t>(chain.back()->before)]);
    }
    std::reverse(chain.begin(), chain.end());
    return chain;
  }

  [[nodiscard]] static const StageTransfer& incoming_of(std::size_t s, const Chain& chain,
                                                        const Placement* placed) {
    return placed == nullptr ? chain[s]->incoming : placed->incoming[s];
  }
  [[nodiscard]] static Seconds reduction_of(std::size_t s, const Chain& chain,
                                            const Placement* placed) {
    const Seconds own = chain[s]->stage->price.reduction;
    return placed == nullptr ? own : own + placed->shared[s];
  }

  /// No step of a plan that begins like this is shorter; `placed`: of a whole plan.
  [[nodiscard]] Seconds bound_of(const Chain& chain, const Placement* placed = nullptr) const {
    const Partial& end = *chain.back();
    const StageCatalog& catalog = catalog_of(end);
    Seconds rest;  // from the first output of the last stage
    if (end.last + 1 < layers()) {
      rest = catalogs_[static_cast<std::size_t>(end.catalog)].bounds->behind(
          catalog.layout_of(end.stage->form), end.last + 1, problem_.gpus - end.devices);
    }
    Seconds head;  // until the first input of the stage
    for (std::size_t s = 0; s + 1 < chain.size(); ++s) {
      head += chain[s]->stage->price.forward + incoming_of(s + 1, chain, placed).activation;
    }
    StepEnds ends;
    for (std::size_t s = chain.size(); s-- > 0;) {
      const StagePrice& price = chain[s]->stage->price;
      rest = with_rest(price.both(), catalog.order().micro_batches, rest);
      ends.add(head + rest + reduction_of(s, chain, placed), price.after);
      if (s == 0) break;
      const StageTransfer& incoming = incoming_of(s, chain, placed);
      head -= chain[s - 1]->stage->price.forward + incoming.activation;
      rest += incoming.activation + incoming.gradient;
    }
    return step_of(ends, catalog.order().schedule) * kRounding;
  }

  [[nodiscard]] bool starts_together(ScheduleId schedule) const {
    return optimizer_start(*problem_.framework, schedule) == OptimizerStart::Together;
  }
  [[nodiscard]] Seconds step_of(const StepEnds& ends, ScheduleId schedule) const {
    return starts_together(schedule) ? ends.reduced + ends.after : ends.apart;
  }

  /// Memory of the fullest stage for the micro-batches that must be in flight by now.
  [[nodiscard]] Bytes least_memory(const Chain& chain) const {
    const Partial& end = *chain.back();
    const PipelineOrder& order = catalog_of(end).order();
    PipelineShape shape;
    shape.schedule = order.schedule;
    shape.micro_batches = order.micro_batches;
    shape.stages = static_cast<int>(chain.size()) + (end.last + 1 == layers() ? 0 : 1);
    Bytes most;
    for (std::size_t s = 0; s < chain.size(); ++s) {
      const StagePrice& price = chain[s]->stage->price;
      const int in_flight = peak_chunks(shape, static_cast<int>(s));
      most = std::max(most, price.fixed + price.activations * static_cast<double>(in_flight));
    }
    return most;
  }

  [[nodiscard]] bool has_asked_stages(const Chain& chain) const {
    const auto stages = static_cast<int>(chain.size());
    if (chain.back()->last + 1 < layers()) return stages < most_stages_;
    return request_.admits(Degree::Pipeline, stages);
  }

  /// Puts every continuation by one stage that may lead to the best into the queue.
  void extend(const Partial& partial, int index) {
    ++extended_;
    const StageCatalog& catalog = catalog_of(partial);
    const StageBounds& bounds = *catalogs_[static_cast<std::size_t>(partial.catalog)].bounds;
    Partial begun = partial;
    begun.before = index;
    begun.first = partial.last + 1;
    Chain before;
    if (index >= 0) before = chain_of(partials_[static_cast<std::size_t>(index)]);
    const int micro_batches = catalog.order().micro_batches;
    const bool together = starts_together(catalog.order().schedule);
    const Begun ahead = begun_by(before, micro_batches, together);
    std::vector<std::int64_t> bounded(static_cast<std::size_t>(catalog.layouts()));
    // Nothing is offered meanwhile: what is late does not depend on the number of threads.
    std::vector<std::vector<std::pair<Partial, Seconds>>> found(
        static_cast<std::size_t>(catalog.layouts()));
    parallel_for(found.size(), task_.options.threads, [&](std::size_t l) {
      const auto layout = static_cast<int>(l);
      Partial next = begun;
      next.devices = partial.devices + catalog.devices_of(layout);
      if (next.devices > problem_.gpus) return;
      if (index >= 0) {
        next.incoming =
            catalog.transfer(catalog.layout_of(partial.stage->form), layout, partial.last);
      }
      Chain chain = before;
      chain.push_back(&next);
      for (next.last = next.first; next.last < layers(); ++next.last) {
        const Seconds rest = bounds.behind(layout, next.last + 1, problem_.gpus - next.devices);
        if (rest.value() == std::numeric_limits<double>::infinity()) continue;
        for (const PricedStage& stage : catalog.stages(next.first, next.last, layout)) {
          next.stage = &stage;
          ++bounded[l];
          if (offers_.is_late(bound_behind(ahead, next, rest, micro_batches, together))) continue;
          if (!has_asked_stages(chain) || least_memory(chain) > offers_.limit()) continue;
          const Seconds bound = bound_of(chain);
          if (offers_.is_late(bound)) continue;
          found[l].emplace_back(next, bound);
        }
      }
    });
    for (const std::int64_t some : bounded) bounded_ += some;
    for (const auto& continued : found) {
      for (const auto& [next, bound] : continued) {
        partials_.push_back(next);
        const auto orders = static_cast<int>(catalogs_.size());
        queue_.push({bound, static_cast<int>(partials_.size()) - 1,
                     next.before < 0 ? next.catalog : orders});
      }
    }
  }

  [[nodiscard]] Placement placement_of(const Chain& chain) const {
    const StageCatalog& catalog = catalog_of(*chain.back());
    std::vector<StageCatalog::Placed> stages;
    for (const Partial* partial : chain) {
      stages.push_back({partial->first, partial->last, partial->stage->form});
    }
    const std::vector<int> ranks = catalog.first_ranks(stages);
    Placement placed{{{}}, catalog.shared_reductions(stages, ranks)};
    const auto layout = [&](std::size_t s) { return catalog.layout_of(stages[s].form); };
    for (std::size_t s = 1; s < chain.size(); ++s) {
      placed.incoming.push_back(ranks.empty()
                                    ? chain[s]->incoming
                                    : catalog.transfer(layout(s - 1), layout(s), chain[s - 1]->last,
                                                       {ranks[s - 1], ranks[s]}));
    }
    return placed;
  }

  /// The step of a whole plan by the simulation of its stages as priced alone.
  [[nodiscard]] Seconds simulated(const Chain& chain, const Placement* placed) {
    durations_ = {};
    for (std::size_t s = 0; s < chain.size(); ++s) {
      durations_.forward.push_back(to_ticks(chain[s]->stage->price.forward));
      durations_.backward.push_back(to_ticks(chain[s]->stage->price.backward));
      if (s == 0) continue;
      const StageTransfer& incoming = incoming_of(s, chain, placed);
      durations_.activation_transfer.push_back(to_ticks(incoming.activation));
      durations_.gradient_transfer.push_back(to_ticks(incoming.gradient));
    }
    const PipelineOrder& order = catalog_of(*chain.back()).order();
    PlanDegrees degrees;
    degrees.pipeline = static_cast<int>(chain.size());
    degrees.micro_batches = order.micro_batches;
    degrees.schedule = order.schedule;
    const PipelineShape shape = pipeline_shape(degrees, *problem_.framework, *problem_.network);
    const PipelineResult& run = simulator_.run(shape, durations_.view());
    StepEnds ends;
    for (std::size_t s = 0; s < chain.size(); ++s) {
      const Seconds end = to_seconds(run.devices[s].last_end);
      ends.add(end + reduction_of(s, chain, placed), chain[s]->stage->price.after);
    }
    return step_of(ends, order.schedule);
  }

  [[nodiscard]] std::vector<StageDescription> stages_of_chain(const Chain& chain) const {
    std::vector<StageDescription> stages;
    for (const Partial* partial : chain) {
      stages.push_back(
          catalog_of(*partial).stage(partial->first, partial->last, partial->stage->form));
    }
    return stages;
  }

  /// Plans that differ in layers and recomputation only.
  [[nodiscard]] PlanFamily family_of(const Chain& chain) const {
    PlanFamily family{{}, {chain.back()->catalog}};
    for (const Partial* partial : chain) {
      family.stages.push_back(catalog_of(*partial).layout_of(partial->stage->form));
    }
    return family;
  }

  void simulate(const Chain& chain, Seconds bound) {
    const PlanFamily family = family_of(chain);
    const Bytes memory = least_memory(chain);
    const Placement placed = placement_of(chain);
    if (offers_.excludes(family, {bound_of(chain, &placed), memory})) return;
    Seconds near = bound;
    if (!is_listed(problem_)) {  // runtimes with lists have another simulation
      if (offers_.excludes(family, {simulated(chain, &placed), memory})) return;
      near = std::max(near, simulated(chain, nullptr) * kRounding);
    }
    if (!offers_.may_rank(family, near)) return;
    const auto before = offers_.best();
    offers_.offer(catalog_of(*chain.back()).plan(stages_of_chain(chain)), family);
    in_vain_ = offers_.best() == before ? in_vain_ + 1 : 0;
  }

  const Problem& problem_;
  const SearchTask& task_;
  StagePricer pricer_;
  Offers offers_;
  LayerRanges ranges_;
  std::int64_t most_extended_;
  std::int64_t extended_ = 0;  ///< partial plans that were continued
  std::int64_t bounded_ = 0;   ///< continuations
  std::int64_t in_vain_ = 0;   ///< whole plans that were priced since the best one
  SearchRequest request_;
  int most_stages_ = 0;  ///< that are admitted
  std::vector<OrderCatalog> catalogs_;
  std::deque<Partial> partials_;
  std::priority_queue<Promise> queue_;
  PipelineSimulator simulator_;
  PipelineDurations durations_;  ///< of the plan that is bounded
};

}  // namespace

SearchPart uneven_part(const SearchRequest& request, std::int64_t most_extended) {
  return {"uneven", [request, most_extended](const SearchTask& task) {
            return std::make_unique<UnevenSearch>(task, request, most_extended);
          }};
}

}  // namespace plansearch
