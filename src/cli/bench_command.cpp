// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "commands.hpp"
#include "exit_code.hpp"
#include "load.hpp"
#include "output.hpp"
#include "plansearch/base/hash.hpp"
#include "plansearch/base/parallel.hpp"
#include "plansearch/report/text_table.hpp"
#include "plansearch/search/search.hpp"
#include "space.hpp"

namespace plansearch::cli {
namespace {

using Clock = std::chrono::steady_clock;

/// Questions whose answers make up the signature. Changing them changes it.
struct FixedProblem {
  const char* hardware;
  const char* model;
  int gpus;
  std::int64_t batch;
};
constexpr std::array<FixedProblem, 3> kProblems{{{"perlmutter", "gpt2-xl", 64, 512},
                                                 {"selene", "gpt3-175b", 1024, 1536},
                                                 {"dgx-h100", "llama3-70b", 512, 1024}}};
constexpr std::size_t kRanked = 20;

struct SearchTiming {
  std::string problem;
  std::int64_t plans = 0;
  double seconds = 0.0;
};

struct Rate {
  std::string what;
  double per_second = 0.0;
};

Inputs inputs_of(const FixedProblem& fixed) {
  Options options;
  options.hardware = fixed.hardware;
  options.model = fixed.model;
  options.gpus = fixed.gpus;
  options.batch = fixed.batch;
  return load_inputs({options, {}, {}});
}

/// Words that are equal exactly when the rankings are.
std::string ranking_text(const std::vector<PlanCandidate>& ranked) {
  std::string text;
  for (const PlanCandidate& candidate : ranked) {
    const ParallelPlan& p = candidate.plan;
    text +=
        fmt::format("{} {} {} {} {} {} {} {} {} {} {} {:.9e} {:.9e}\n", p.data, p.pipeline,
                    p.chunks, p.tensor_out, p.context, p.expert, static_cast<int>(p.zero),
                    p.micro_batch, static_cast<int>(p.recompute), static_cast<int>(p.schedule),
                    static_cast<int>(p.sequence_parallel), candidate.estimate.step.total().value(),
                    candidate.estimate.memory.total().value());
  }
  return text;
}

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

SearchTiming time_search(const FixedProblem& fixed, int threads, std::uint64_t& signature) {
  const Inputs inputs = inputs_of(fixed);
  const Problem problem = with_gpus(inputs, fixed.gpus);
  const PlanEvaluator evaluator(problem);
  SearchOptions options;
  options.top = kRanked;
  options.threads = threads;
  const auto start = Clock::now();
  const SearchResult result = search(evaluator, build_space(problem, {}), options);
  signature = combine_hashes(signature, content_hash(ranking_text(result.ranked)));
  return {fmt::format("{} on {} x {}", fixed.model, fixed.gpus, fixed.hardware),
          result.counts.space, seconds_since(start)};
}

/// Legal plans of a problem with their profiles at hand, so that only pricing is timed.
struct Priced {
  ParallelPlan plan;
  std::shared_ptr<const ClassProfile> profile;
};

std::vector<Priced> legal_plans(const PlanEvaluator& evaluator, const SearchSpace& space,
                                std::size_t most, Rate& profiles) {
  const SpaceWalk walk(space);
  std::vector<SpacePrefix> prefixes;
  for (const ParallelPlan& triple : walk.triples()) walk.append_prefixes(triple, prefixes);
  const std::size_t stride = std::max<std::size_t>(1, prefixes.size() / most);
  std::vector<Priced> plans;
  std::vector<ParallelPlan> leaves;
  double seconds = 0.0;
  std::size_t derived = 0;
  for (std::size_t i = 0; i < prefixes.size(); i += stride) {
    leaves.clear();
    walk.append_leaves(prefixes[i], leaves);
    for (const ParallelPlan& plan : leaves) {
      if (evaluator.obstacle(plan)) continue;
      const auto start = Clock::now();
      plans.push_back({plan, evaluator.profile(plan)});
      seconds += seconds_since(start);
      ++derived;
    }
  }
  profiles = {"class profiles (cached ones included)",
              static_cast<double>(derived) / std::max(seconds, 1e-9)};
  return plans;
}

/// Calls `price` for every plan, again and again, for about `duration` seconds.
template <typename Price>
Rate measure(std::string what, const std::vector<Priced>& plans, double duration, Price price) {
  const auto start = Clock::now();
  std::size_t done = 0;
  while (seconds_since(start) < duration && !plans.empty()) {
    for (const Priced& priced : plans) price(priced);
    done += plans.size();
  }
  return {std::move(what), static_cast<double>(done) / seconds_since(start)};
}

std::vector<Rate> measure_rates() {
  constexpr std::size_t kSample = 2000;
  constexpr double kDuration = 0.4;
  const Inputs inputs = inputs_of(kProblems[1]);
  const Problem problem = with_gpus(inputs, kProblems[1].gpus);
  const PlanEvaluator evaluator(problem);
  const auto workspace = PlanEvaluator::make_workspace();
  Rate profiles;
  const auto plans = legal_plans(evaluator, build_space(problem, {}), kSample, profiles);
  double sink = 0.0;
  std::vector<Rate> rates;
  rates.push_back(measure("legality checks", plans, kDuration, [&](const Priced& p) {
    sink += evaluator.obstacle(p.plan) ? 1.0 : 0.0;
  }));
  rates.push_back(profiles);
  rates.push_back(measure("bounds", plans, kDuration, [&](const Priced& p) {
    sink += evaluator.bound(*p.profile, p.plan, *workspace).step_time.value();
  }));
  rates.push_back(measure("estimates", plans, kDuration, [&](const Priced& p) {
    sink += evaluator.estimate(*p.profile, p.plan, *workspace).step.compute.value();
  }));
  rates.push_back(measure("simulated evaluations", plans, kDuration, [&](const Priced& p) {
    sink += evaluator.simulate(*p.profile, p.plan, *workspace).step.compute.value();
  }));
  if (sink < 0.0) rates.clear();  // the results are used: nothing can be optimised away
  return rates;
}

std::string table(const std::vector<Rate>& rates, const std::vector<SearchTiming>& searches,
                  std::uint64_t signature, int threads) {
  TextTable speeds({{"per core", Align::Left}, {"per second"}});
  for (const Rate& rate : rates)
    speeds.add_row({rate.what, fmt::format("{:.0f}", rate.per_second)});
  TextTable times(
      {{fmt::format("search on {} threads", threads), Align::Left}, {"plans"}, {"seconds"}});
  for (const SearchTiming& search : searches) {
    times.add_row(
        {search.problem, fmt::format("{}", search.plans), fmt::format("{:.3f}", search.seconds)});
  }
  return fmt::format("{}\n{}\nsearch signature {}\n", speeds.text(), times.text(),
                     hash_text(signature));
}

std::string json(const std::vector<Rate>& rates, const std::vector<SearchTiming>& searches,
                 std::uint64_t signature, int threads) {
  nlohmann::ordered_json document{{"schema", "plansearch/bench/v1"}, {"threads", threads}};
  document["rates"] = nlohmann::ordered_json::array();
  for (const Rate& rate : rates) {
    document["rates"].push_back({{"what", rate.what}, {"per_second_per_core", rate.per_second}});
  }
  document["searches"] = nlohmann::ordered_json::array();
  for (const SearchTiming& search : searches) {
    document["searches"].push_back(
        {{"problem", search.problem}, {"plans", search.plans}, {"time_s", search.seconds}});
  }
  document["signature"] = hash_text(signature);
  return document.dump(2) + "\n";
}

}  // namespace

int run_bench(const Options& options) {
  const Output output(options);
  const int threads = options.threads > 0 ? options.threads : available_threads();
  const std::vector<Rate> rates = measure_rates();
  std::uint64_t signature = 0;
  std::vector<SearchTiming> searches;
  for (const FixedProblem& fixed : kProblems) {
    searches.push_back(time_search(fixed, threads, signature));
  }
  output.write(options.format == "json" ? json(rates, searches, signature, threads)
                                        : table(rates, searches, signature, threads));
  return kExitOk;
}

}  // namespace plansearch::cli
