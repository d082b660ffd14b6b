// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "cli/bench_rates.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/load.hpp"
#include "cli/output.hpp"
#include "cli/space.hpp"
#include "plansearch/search.hpp"
#include "report/text_table.hpp"

namespace plansearch::cli {
namespace {

/// Questions whose answers make up the signature. Changing them changes it.
struct FixedProblem {
  const char* hardware;
  const char* model;
  int gpus;
  std::int64_t batch;
  Pruning pruning;
};
constexpr std::array<FixedProblem, 5> kProblems{
    {{"perlmutter", "gpt2-xl", 64, 512, Pruning::On},
     {"dgx-h100", "llama3-70b", 512, 1024, Pruning::On},
     {"dgx-h100", "mixtral-8x7b", 256, 1024, Pruning::On},
     {"selene", "gpt3-175b", 4096, 1536, Pruning::On},
     {"selene", "gpt3-175b", 4096, 1536, Pruning::Off}}};
constexpr std::size_t kRanked = 20;

struct SearchTiming {
  std::string problem;
  std::int64_t plans = 0;
  double seconds = 0.0;
};

struct Measured {
  int threads = 1;
  std::vector<Rate> rates;
  std::vector<SearchTiming> searches;
  std::uint64_t signature = 0;
  Bytes peak_memory;
};

Options options_of(const FixedProblem& fixed) {
  Options options;
  options.hardware = fixed.hardware;
  options.model = fixed.model;
  options.gpus = fixed.gpus;
  options.batch = fixed.batch;
  options.space = "megatron";
  return options;
}

Problem problem_of(const Options& options) {
  return with_gpus(load_inputs({options, {}, {}}), *options.gpus);
}

/// Words that are equal exactly when the rankings are.
std::string ranking_text(const std::vector<PlanCandidate>& ranked) {
  std::string text;
  for (const PlanCandidate& candidate : ranked) {
    const PlanDegrees& p = candidate.plan;
    text +=
        fmt::format("{} {} {} {} {} {} {} {} {} {} {} {:.9e} {:.9e}\n", p.data, p.pipeline,
                    p.chunks, p.tensor_out, p.context, p.expert, static_cast<int>(p.zero),
                    p.micro_batch, static_cast<int>(p.recompute), static_cast<int>(p.schedule),
                    static_cast<int>(p.sequence_parallel), candidate.estimate.step.total().value(),
                    candidate.estimate.memory.total().value());
  }
  return text;
}

void time_search(const FixedProblem& fixed, Measured& measured) {
  const Options options = options_of(fixed);
  const Problem problem = problem_of(options);
  SearchOptions search_options;
  search_options.top = kRanked;
  search_options.threads = measured.threads;
  search_options.pruning = fixed.pruning;
  const auto start = std::chrono::steady_clock::now();
  const PlanEvaluator evaluator(problem);
  const SearchResult result = search(evaluator, build_space(problem, options), search_options);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  measured.signature =
      combine_hashes(measured.signature, content_hash(ranking_text(result.ranked)));
  measured.searches.push_back(
      {fmt::format("{} on {} x {}{}", fixed.model, fixed.gpus, fixed.hardware,
                   fixed.pruning == Pruning::Off ? ", exhaustive" : ""),
       result.counts.space, taken.count()});
}

Bytes peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return Bytes(1024.0 * static_cast<double>(usage.ru_maxrss));
}

std::string table(const Measured& measured) {
  TextTable speeds({{"one core", Align::Left}, {"per second"}, {"each"}});
  for (const Rate& rate : measured.rates) {
    speeds.add_row({rate.what, fmt::format("{:.0f}", rate.per_second),
                    to_text(Seconds(1.0 / rate.per_second))});
  }
  TextTable times(
      {{fmt::format("search, {} threads", measured.threads), Align::Left}, {"plans"}, {"seconds"}});
  for (const SearchTiming& search : measured.searches) {
    times.add_row(
        {search.problem, fmt::format("{}", search.plans), fmt::format("{:.3f}", search.seconds)});
  }
  return fmt::format("{}\n{}\npeak memory {}\nsearch signature {} (the same for any threads)\n",
                     speeds.text(), times.text(), to_text(measured.peak_memory),
                     hash_text(measured.signature));
}

std::string json(const Measured& measured) {
  nlohmann::ordered_json document{{"schema", "plansearch/bench/v1"}, {"threads", measured.threads}};
  document["rates"] = nlohmann::ordered_json::array();
  for (const Rate& rate : measured.rates) {
    document["rates"].push_back({{"what", rate.what}, {"per_second_per_core", rate.per_second}});
  }
  document["searches"] = nlohmann::ordered_json::array();
  for (const SearchTiming& search : measured.searches) {
    document["searches"].push_back(
        {{"problem", search.problem}, {"plans", search.plans}, {"time_s", search.seconds}});
  }
  document["peak_memory_bytes"] = measured.peak_memory.value();
  document["signature"] = hash_text(measured.signature);
  return document.dump(2) + "\n";
}

}  // namespace

int run_bench(const Options& options) {
  const Output output(options);
  Measured measured;
  measured.threads = options.threads > 0 ? options.threads : available_threads();
  const Options sampled = options_of(kProblems.back());
  const Problem problem = problem_of(sampled);
  measured.rates = measure_rates(PlanEvaluator(problem), build_space(problem, sampled));
  for (const FixedProblem& fixed : kProblems) time_search(fixed, measured);
  measured.peak_memory = peak_memory();
  output.write(options.format == "json" ? json(measured) : table(measured));
  return kExitOk;
}

}  // namespace plansearch::cli
