// SPDX-License-Identifier: Apache-2.0
#include "plansearch/plan_report.hpp"
#include "search/strategies/strategy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "plan/stages/layer_distribution.hpp"
#include "plansearch/plan_stages.hpp"
#include "search/strategies/uneven/stage_catalog.hpp"
#include "search/strategies/uneven/stage_configs.hpp"
#include "support/search_space.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::uneven_search_test {

namespace {

Problem small_problem(int layers, int gpus, double memory_gib, bool tied) {
  test::ToyOptions options;
  options.layers = layers;
  options.gpus = gpus;
  options.global_batch = 8;
  options.memory_gib = memory_gib;
  options.tied = tied;
  return test::toy_problem(options);
}

/// Few enough degrees to price every plan.
SearchRequest few_degrees() {
  SearchRequest request;
  request.pinned.pin(Degree::Recompute, 0);
  request.pinned.pin(Degree::Zero, 0);
  request.pinned.pin(Degree::SequenceParallel, 0);
  request.pinned.pin(Degree::Context, 1);
  return request;
}

/// Every plan: all sequences of degrees that take all devices, all ways to deal out the layers.
class EveryPlan {
 public:
  EveryPlan(const PlanEvaluator& evaluator, const SearchRequest& request)
      : evaluator_(evaluator),
        problem_(evaluator.problem()),
        all_layers_(static_cast<int>(count_layers(*problem_.network))) {
    std::vector<int> sizes;
    for (int size = 1; size <= problem_.gpus; size *= 2) sizes.push_back(size);
    for (const auto& [order, degrees] : stage_degrees(problem_, request, sizes)) {
      order_ = order;
      forms_ = degrees;
      add_stage(0, 0);
    }
  }

  std::optional<Seconds> best;
  int priced = 0;

 private:
  void add_stage(int layers, int devices) {
    if (layers == all_layers_ && devices == problem_.gpus) price();
    if (layers == all_layers_) return;
    for (const PlanDegrees& form : forms_) {
      const int taken = form.data * form.tensor();
      if (devices + taken > problem_.gpus) continue;
      for (int count = 1; layers + count <= all_layers_; ++count) {
        degrees_.push_back(form);
        layers_.push_back(count);
        add_stage(layers + count, devices + taken);
        degrees_.pop_back();
        layers_.pop_back();
      }
    }
  }

  void price() {
    const auto runs = std::get<StageRuns>(place_layers(*problem_.network, layers_));
    std::vector<StageDescription> stages;
    for (std::size_t s = 0; s < runs.size(); ++s) {
      StageDescription stage;
      stage.degrees = degrees_[s];
      stage.chunks = {runs[s]};
      stages.push_back(stage);
    }
    // The largest stages take the first ranks.
    int next = 0;
    for (const int size : {8, 4, 2, 1}) {
      for (std::size_t s = 0; s < stages.size(); ++s) {
        if (degrees_[s].data * degrees_[s].tensor() != size) continue;
        stages[s].first_rank = next;
        next += size;
      }
    }
    const auto plan = plan_of_stages(stages, {order_.schedule, order_.micro_batches},
                                     problem_.global_batch, *problem_.framework, *problem_.network);
    REQUIRE(std::holds_alternative<ParallelPlan>(plan));
    const Evaluation evaluation = evaluator_.evaluate(std::get<ParallelPlan>(plan));
    ++priced;
    const auto* estimate = std::get_if<Estimate>(&evaluation);
    if (estimate == nullptr ||
        estimate->memory.total() > evaluator_.memory_up_to(MemoryFit::Fits)) {
      return;
    }
    if (!best || estimate->step.total() < *best) best = estimate->step.total();
  }

  const PlanEvaluator& evaluator_;
  const Problem& problem_;
  int all_layers_;
  PipelineOrder order_;
  std::vector<PlanDegrees> forms_;
  std::vector<PlanDegrees> degrees_;
  std::vector<std::int64_t> layers_;
};

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the best of all plans of six layers on eight devices is found") {
    for (const double memory_gib : {80.0, 2.4, 1.9}) {
      for (const bool tied : {false, true}) {
        const PlanEvaluator evaluator(small_problem(6, 8, memory_gib, tied));
        const EveryPlan every(evaluator, few_degrees());
        const SearchResult found = test::search_space("uneven", evaluator, few_degrees());
        CAPTURE(memory_gib);
        CHECK(every.priced > 3000);
        REQUIRE(every.best.has_value() == !found.ranked.empty());
        if (!every.best) continue;
        CHECK(found.completeness == Completeness::Optimal);
        CHECK(found.ranked.front().estimate.step.total().value() == every.best->value());
        CHECK(found.counts.simulated < every.priced / 2);
      }
    }
  }

  TEST_CASE("so it is with recomputation, sharding and sequence parallelism open") {
    SearchRequest request;
    request.pinned.pin(Degree::Context, 1);
    for (const double memory_gib : {80.0, 2.2}) {
      const PlanEvaluator evaluator(small_problem(3, 4, memory_gib, true));
      const EveryPlan every(evaluator, request);
      const SearchResult found = test::search_space("uneven", evaluator, request);
      CAPTURE(memory_gib);
      CHECK(every.priced > 1000);
      REQUIRE(every.best.has_value() == !found.ranked.empty());
      if (every.best) {
        CHECK(found.ranked.front().estimate.step.total().value() == every.best->value());
      }
    }
  }

  TEST_CASE("so it is on forty random questions, for 1 and 3 threads") {
    std::mt19937 random(26);
    int with_plan = 0;
    for (int round = 0; round < 40; ++round) {
      CAPTURE(round);
      const int gpus = random() % 2 == 0 ? 4 : 8;
      const int layers = 2 + static_cast<int>(random() % (gpus == 4 ? 4 : 3));
      const double memory_gib = 1.2 + 0.1 * static_cast<double>(random() % 20);
      const PlanEvaluator evaluator(small_problem(layers, gpus, memory_gib, random() % 2 == 0));
      SearchRequest request = few_degrees();
      if (random() % 2 == 0) request.pinned.pin(Degree::Recompute, 2);
      const EveryPlan every(evaluator, request);
      SearchOptions options;
      const SearchResult found = test::search_space("uneven", evaluator, request, options);
      const bool fits = !found.ranked.empty() && found.admitted == MemoryFit::Fits;
      REQUIRE(every.best.has_value() == fits);
      if (!every.best) continue;
      ++with_plan;
      CHECK(found.ranked.front().estimate.step.total().value() == every.best->value());
      options.threads = 3;
      CHECK(test::search_space("uneven", evaluator, request, options).ranked == found.ranked);
    }
    CHECK(with_plan > 10);
  }

  TEST_CASE("whole plans are bounded by the messages and reductions that they have") {
    std::mt19937 random(5);
    int apart = 0;
    int shared_at_all = 0;
    for (int round = 0; round < 60; ++round) {
      CAPTURE(round);
      const int layers = 4;
      const Problem problem = small_problem(layers, 8, 80.0, round % 4 != 0);
      const PlanEvaluator evaluator(problem);
      const StagePricer pricer(evaluator.views());
      const LayerRanges ranges(layer_runs(*problem.network), *problem.network,
                               problem.framework->skips);
      const auto orders = stage_degrees(problem, few_degrees(), {1, 2, 4});
      const auto& [order, degrees] = *std::next(orders.begin(), random() % orders.size());
      const StageCatalog catalog(pricer, problem, order, degrees, ranges);
      std::vector<StageCatalog::Placed> stages;
      std::vector<StageDescription> described;
      int devices = 0;
      for (int first = 0; first < layers && devices < 8;) {
        const auto form = static_cast<int>(random() % degrees.size());
        const int last = std::min(layers - 1, first + static_cast<int>(random() % 2));
        stages.push_back({first, last, form});
        described.push_back(catalog.stage(first, last, form));
        devices += catalog.form(form).devices();
        first = last + 1;
      }
      if (stages.back().last + 1 != layers || devices != 8) continue;
      const auto plan = catalog.plan(described);
      REQUIRE(std::holds_alternative<ParallelPlan>(plan));
      const std::vector<StageReport> reports =
          plan_details(evaluator, std::get<ParallelPlan>(plan)).stages;
      const std::vector<int> ranks = catalog.first_ranks(stages);
      const std::vector<Seconds> shared = catalog.shared_reductions(stages, ranks);
      if (!ranks.empty()) ++apart;
      for (std::size_t s = 0; s < stages.size(); ++s) {
        const auto& [first, last, form] = stages[s];
        const StagePrice price = pricer.price(catalog.form(form), catalog.blocks(first, last));
        CHECK((price.reduction + shared[s]).value() ==
              doctest::Approx(reports[s].reduction.value()).epsilon(1e-12));
        if (shared[s] > Seconds(0)) ++shared_at_all;
        if (s + 1 == stages.size()) continue;
        const int from = catalog.layout_of(form);
        const int to = catalog.layout_of(stages[s + 1].form);
        CHECK(catalog.transfer(from, to, last).activation <= reports[s].edge_time);
        if (ranks.empty()) continue;
        CHECK(ranks[s] == reports[s].first_rank);
        CHECK(catalog.transfer(from, to, last, {ranks[s], ranks[s + 1]}).activation ==
              reports[s].edge_time);
      }
    }
    CHECK(apart > 5);
    CHECK(shared_at_all > 10);
  }

  TEST_CASE("no uniform plan of one chunk is faster") {
    const PlanEvaluator evaluator(small_problem(6, 8, 2.4, true));
    PinnedDegrees one_chunk;
    one_chunk.pin(Degree::Chunks, 1);
    one_chunk.pin(Degree::Schedule, static_cast<int>(kDefaultSchedule));
    const auto space = make_space("framework", evaluator.problem(), one_chunk);
    const SearchResult uniform = search(evaluator, std::get<SearchSpace>(space), {});
    SearchRequest same_order;
    same_order.pinned.pin(Degree::Schedule, static_cast<int>(kDefaultSchedule));
    const SearchResult found = test::search_space("uneven", evaluator, same_order);
    REQUIRE_FALSE(uniform.ranked.empty());
    CHECK(found.ranked.front().estimate.step.total() <=
          uniform.ranked.front().estimate.step.total());
  }

  TEST_CASE("a search cut short says how far the optimum can be") {
    const PlanEvaluator evaluator(small_problem(6, 8, 80.0, true));
    const SearchResult all = test::search_space("uneven", evaluator);
    const SearchResult cut = run_search({uneven_part({}, 8)}, evaluator, {}, nullptr);
    CHECK(all.completeness == Completeness::Optimal);
    CHECK(all.bound == all.ranked.front().estimate.step.total());
    CHECK(cut.completeness == Completeness::Stopped);
    CHECK(cut.bound <= all.bound);
  }

  TEST_CASE("sub-meshes tile nodes") {
    CHECK(submesh_sizes(8, 64) == std::vector<int>{1, 2, 4, 8, 16, 32, 64});
    CHECK(submesh_sizes(4, 12) == std::vector<int>{1, 2, 4, 8, 12});
    CHECK(submesh_sizes(6, 6) == std::vector<int>{1, 2, 6});
    CHECK(submesh_sizes(8, 4) == std::vector<int>{1, 2, 4});
  }
}

}  // namespace plansearch::uneven_search_test
