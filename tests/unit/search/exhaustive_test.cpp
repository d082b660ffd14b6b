// SPDX-License-Identifier: Apache-2.0
// Every space: what bounds leave out is in no answer, and threads change none.
#include <doctest/doctest.h>

#include <array>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "plansearch/network.hpp"
#include "plansearch/search.hpp"
#include "plansearch/space.hpp"
#include "schedule/table.hpp"
#include "support/toy_class.hpp"
#include "support/toy_problem.hpp"

namespace plansearch::exhaustive_test {
namespace {

/// Small enough to price every plan of every space.
Problem random_problem(std::mt19937& random, OperatorSteps steps) {
  const auto one_of = [&](std::initializer_list<int> values) {
    return values.begin()[random() % values.size()];
  };
  test::ToyOptions options;
  options.layers = one_of({2, 3});
  options.gpus = one_of({2, 4});
  options.global_batch = one_of({4, 8});
  options.heads = one_of({4, 8});
  options.memory_gib = one_of({2, 3, 80});
  options.tied = one_of({0, 1}) == 1;
  return test::with_framework(test::toy_problem(options), [&](Framework& framework) {
    framework.operator_steps = steps;
    framework.own_layers = OwnLayers::Ends;
  });
}

SearchRequest random_request(std::mt19937& random) {
  SearchRequest request;
  request.pinned.pin(Degree::Context, 1);
  const auto maybe = [&](Degree degree, int values) {
    if (random() % 2 == 0) request.pinned.pin(degree, static_cast<int>(random()) % values);
  };
  request.pinned.pin(Degree::Recompute, static_cast<int>(random() % 2) * 2);
  request.pinned.pin(Degree::Schedule, static_cast<int>(kDefaultSchedule));
  request.pinned.pin(Degree::Zero, 0);
  maybe(Degree::SequenceParallel, 1);
  return request;
}

using Prices = std::vector<std::pair<double, double>>;

/// Step times and memory, in their order.
Prices prices(const std::vector<PlanCandidate>& plans) {
  Prices result;
  for (const PlanCandidate& plan : plans) {
    result.emplace_back(plan.estimate.step.total().value(), plan.estimate.memory.total().value());
  }
  return result;
}

Prices prices(const std::vector<NearMiss>& misses) {
  Prices result;
  for (const NearMiss& miss : misses) {
    result.emplace_back(miss.limit.value(), miss.estimate.memory.total().value());
  }
  return result;
}

enum class Compared { Bounds, Threads };

void check_equal(const SearchResult& a, const SearchResult& b, std::string_view space,
                 Compared compared) {
  CHECK(a.admitted == b.admitted);
  REQUIRE(a.ranked.empty() == b.ranked.empty());
  // Plans behind the first of `uneven` are those that the proof of the first has met.
  const bool first_only = space == "uneven" && compared == Compared::Bounds && !a.ranked.empty();
  if (first_only) CHECK(prices(a.ranked).front().first == prices(b.ranked).front().first);
  if (!first_only) CHECK(prices(a.ranked) == prices(b.ranked));
  CHECK(prices(a.misses) == prices(b.misses));
  // Spaces of other plans than degrees leave slow ones out that need little memory.
  if (!is_staged(space)) CHECK(prices(a.front) == prices(b.front));
}

/// A mixture whose framework has modules, dispatchers and orders in pairs to choose from.
Problem random_mixture(std::mt19937& random) {
  const auto one_of = [&](std::initializer_list<double> values) {
    return values.begin()[random() % values.size()];
  };
  test::ToyOptions options;
  options.layers = 4;
  options.gpus = one_of({4, 8}) > 4 ? 8 : 4;
  options.global_batch = 16;
  options.heads = 4;
  options.experts = 4;
  options.memory_gib = 80;
  Problem problem = test::with_framework(test::toy_problem(options), [&](Framework& framework) {
    framework.schedules = {"1f1b", "interleaved"};
    framework.paired_schedules = {"interleaved-pairs", "pairs"};
    framework.recompute_modules = ~LayerModules();
    framework.dispatchers.push_back({"deepep", find_dispatcher("deepep").value(), TokenPath::Nodes,
                                     one_of({0.3, 0.9}), one_of({0.3, 0.7}), "a table"});
    OverlapRule& exchange = framework.overlap[static_cast<std::size_t>(Overlap::ExpertAllToAll)];
    exchange.share = one_of({0.0, 0.4});
    exchange.joined = true;
    framework.rules.push_back({"no-recompute-in-pairs", 0.0, "no"});
    framework.rules.push_back({"pairs-need-experts", 0.0, "no"});
  });
  Cluster cluster = *problem.cluster;
  cluster.accelerators_per_node = 2;
  problem.cluster = std::make_shared<const Cluster>(std::move(cluster));
  return problem;
}

const SearchResult& result_of(const std::variant<SearchResult, Infeasible>& found) {
  REQUIRE(std::holds_alternative<SearchResult>(found));
  return std::get<SearchResult>(found);
}

SearchRequest mixture_request() {
  SearchRequest request;
  for (const Degree degree : {Degree::Context, Degree::TensorOut}) request.pinned.pin(degree, 1);
  request.pinned.pin(Degree::Zero, 1);
  request.pinned.pin(Degree::Dispatcher, static_cast<int>(kAnyDispatcher));
  return request;
}

/// A share of the memory that the fastest plan needs without recomputation.
Problem with_memory(Problem problem, double share) {
  SearchRequest request = mixture_request();
  request.pinned.pin(Degree::Recompute, 0);
  const PlanEvaluator evaluator(problem);
  const auto found = search(evaluator, "framework", request, {});
  Cluster cluster = *problem.cluster;
  cluster.accelerator.memory = result_of(found).ranked.front().estimate.memory.total() * share;
  problem.cluster = std::make_shared<const Cluster>(std::move(cluster));
  return problem;
}

TEST_SUITE("unit") {
  TEST_CASE("mixtures: modules, dispatchers and pairs of a search are the best that can be named") {
    constexpr int kCases = 12;
    std::mt19937 random(20261126);
    int with_modules = 0;
    int with_deepep = 0;
    int with_pairs = 0;
    for (int i = 0; i < kCases; ++i) {
      CAPTURE(i);
      constexpr std::array kShares{0.7, 0.8, 0.9, 2.0};
      const PlanEvaluator evaluator(
          with_memory(random_mixture(random), kShares.at(static_cast<std::size_t>(i) % 4)));
      SearchRequest request = mixture_request();
      request.limits.allow(Degree::Recompute, {0, 1});
      request.pinned.pin(Degree::RecomputeModules, kFewestModules);
      SearchOptions every;
      every.pruning = Pruning::Off;
      const auto pruned = search(evaluator, "framework", request, {});
      const auto all = search(evaluator, "framework", request, every);
      const SearchResult& some = result_of(pruned);
      check_equal(some, result_of(all), "framework", Compared::Bounds);
      if (some.ranked.empty() || some.admitted != MemoryFit::Fits) continue;
      // Named one by one, none is faster.
      std::optional<Seconds> fastest;
      const auto known = evaluator.problem().framework->recompute_modules &
                         modules_of(*evaluator.problem().network);
      for (unsigned set = 0; set < kFewestModules; ++set) {
        if ((LayerModules(set) & ~known).any()) continue;
        for (const DispatcherId dispatcher : tried_dispatchers(*evaluator.problem().framework)) {
          SearchRequest named = request;
          named.pinned.pin(Degree::RecomputeModules, static_cast<int>(set));
          named.pinned.pin(Degree::Dispatcher, static_cast<int>(dispatcher));
          const auto found = search(evaluator, "framework", named, {});
          const SearchResult& one = result_of(found);
          if (one.ranked.empty() || one.admitted != MemoryFit::Fits) continue;
          const Seconds time = one.ranked.front().estimate.step.total();
          if (!fastest || time < *fastest) fastest = time;
        }
      }
      REQUIRE(fastest.has_value());
      const PlanCandidate& first = some.ranked.front();
      CHECK(first.estimate.step.total().value() == doctest::Approx(fastest->value()).epsilon(1e-9));
      with_modules += first.plan.modules != 0 ? 1 : 0;
      with_deepep += first.plan.dispatcher != kOwnDispatcher ? 1 : 0;
      with_pairs += schedule_row(first.plan.schedule).joins ? 1 : 0;
    }
    MESSAGE(with_modules << " with modules, " << with_deepep << " with deepep, " << with_pairs
                         << " in pairs");
    CHECK(with_modules > 0);
    CHECK(with_deepep > 0);
    CHECK(with_pairs > 0);
  }

  TEST_CASE("every space: plans, misses and front are those of a search without bounds") {
    constexpr int kCases = 60;
    std::mt19937 random(20261124);
    for (const NamedSpace& space : named_spaces()) {
      int found = 0;
      for (int i = 0; i < kCases; ++i) {
        CAPTURE(std::string(space.name));
        CAPTURE(i);
        const bool rings = space.name == "temporal" && i % 4 == 0;
        const PlanEvaluator evaluator(
            random_problem(random, rings ? OperatorSteps::Rings : OperatorSteps::Squares));
        SearchRequest request = random_request(random);
        if (space.name == "operators") request.pinned.pin(Degree::Pipeline, 1);
        SearchOptions every;
        every.pruning = Pruning::Off;
        const auto pruned = search(evaluator, space.name, request, {});
        const auto all = search(evaluator, space.name, request, every);
        REQUIRE(pruned.index() == all.index());
        const auto* some = std::get_if<SearchResult>(&pruned);
        if (some == nullptr) continue;
        const auto& other = std::get<SearchResult>(all);
        check_equal(*some, other, space.name, Compared::Bounds);
        for (const int threads : {2, 3}) {
          SearchOptions spread;
          spread.threads = threads;
          const auto again = search(evaluator, space.name, request, spread);
          check_equal(*some, std::get<SearchResult>(again), space.name, Compared::Threads);
          CHECK(some->counts == std::get<SearchResult>(again).counts);
        }
        found += other.ranked.empty() ? 0 : 1;
      }
      CHECK(found > kCases / 4);
    }
  }
}

}  // namespace
}  // namespace plansearch::exhaustive_test
