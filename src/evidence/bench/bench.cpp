// SPDX-License-Identifier: Apache-2.0
#include "evidence/bench/bench.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/hash.hpp"
#include "base/parallel.hpp"
#include "base/units.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/search.hpp"
#include "plansearch/stop_token.hpp"
#include "report/columns.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// Questions whose answers make up the signature. Changing them changes it.
struct FixedProblem {
  const char* hardware;
  const char* model;
  int gpus;
  std::int64_t batch;
  Pruning pruning;
  const char* framework = "megatron";
  const char* space = "megatron";
};
constexpr std::array<FixedProblem, 5> kProblems{
    {{"perlmutter", "gpt2-xl", 64, 512, Pruning::On},
     {"dgx-h100", "llama3-70b", 512, 1024, Pruning::On},
     {"dgx-h100", "mixtral-8x7b", 256, 1024, Pruning::On},
     {"selene", "gpt3-175b", 4096, 1536, Pruning::On},
     {"selene", "gpt3-175b", 4096, 1536, Pruning::Off}}};
constexpr std::size_t kRanked = 20;

/// Spaces whose plans are priced one by one: a dense model, one with experts, and one whose blocks
/// are simulated on streams.
constexpr std::array<FixedProblem, 3> kSampled{
    {{"selene", "gpt3-175b", 4096, 1536, Pruning::Off},
     {"dgx-h100", "deepseek-v3", 2048, 4096, Pruning::Off},
     {"perlmutter", "gpt-80b", 1024, 1024, Pruning::Off, "axonn", "4d"}}};

std::string name_of(const FixedProblem& fixed) {
  return fmt::format("{} on {} x {}{}", fixed.model, fixed.gpus, fixed.hardware,
                     fixed.pruning == Pruning::Off ? ", exhaustive" : "");
}

Problem problem_of(const FixedProblem& fixed) {
  return load_problem({.hardware = fixed.hardware,
                       .model = fixed.model,
                       .framework = fixed.framework,
                       .gpus = fixed.gpus,
                       .batch = fixed.batch})
      .problem;
}

SearchSpace space_of(const FixedProblem& fixed, const Problem& problem) {
  return std::get<SearchSpace>(make_space(fixed.space, problem, {}));
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

void time_search(const FixedProblem& fixed, BenchReport& measured) {
  const Problem problem = problem_of(fixed);
  SearchOptions search_options;
  search_options.top = kRanked;
  search_options.threads = measured.threads;
  search_options.pruning = fixed.pruning;
  const Clocks start = process_clocks();
  const PlanEvaluator evaluator(problem);
  const SearchResult result = search(evaluator, space_of(fixed, problem), search_options);
  check_stop();
  const Clocks taken = process_clocks() - start;
  measured.signature =
      combine_hashes(measured.signature, content_hash(ranking_text(result.ranked)));
  measured.searches.push_back({name_of(fixed), result.counts.space, taken});
}

Bytes peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return Bytes(1024.0 * static_cast<double>(usage.ru_maxrss));
}

std::string whole_text(double number) {
  return fmt::format("{:.0f}", number);
}

const Columns<Rate>& rate_columns() {
  static const Columns<Rate> kColumns{
      {"what", &Rate::what, {"one thread", Align::Left}},
      {"problem", &Rate::problem, {"problem", Align::Left}},
      {"per_cpu_second", &Rate::per_cpu_second, {"per CPU s"}, whole_text},
      {"", [](const Rate& r) { return Seconds(1.0 / r.per_cpu_second); }, {"each"}},
      {"per_wall_second", &Rate::per_wall_second, {"per wall s"}, whole_text}};
  return kColumns;
}

Columns<SearchTiming> timing_columns(int threads) {
  using Timing = const SearchTiming&;
  const auto seconds = [](double time) { return fmt::format("{:.3f}", time); };
  return {{"problem",
           &SearchTiming::problem,
           {fmt::format("search, {} threads", threads), Align::Left}},
          {"plans", &SearchTiming::plans, {"plans"}},
          {"cpu_s", [](Timing s) { return s.taken.cpu; }, {"CPU s"}, seconds},
          {"wall_s", [](Timing s) { return s.taken.wall; }, {"wall s"}, seconds}};
}

}  // namespace

BenchReport run_searches(int threads) {
  BenchReport measured;
  measured.threads = threads;
  for (const FixedProblem& fixed : kProblems) time_search(fixed, measured);
  return measured;
}

BenchReport run_bench(int threads) {
  std::vector<Rate> rates;
  const auto add = [&](const std::vector<Rate>& more) {
    rates.insert(rates.end(), more.begin(), more.end());
  };
  for (const FixedProblem& fixed : kSampled) {
    const Problem problem = problem_of(fixed);
    const std::string name = fmt::format("{}, {} GPUs", fixed.model, fixed.gpus);
    add(measure_rates(name, problem, space_of(fixed, problem)));
  }
  add({measure_simulator()});
  add(measure_orders());
  add(measure_stage_programs());
  BenchReport measured = run_searches(threads);
  measured.rates = std::move(rates);
  measured.peak_memory = peak_memory();
  return measured;
}

std::string render_bench(const BenchReport& measured, Format format) {
  const Columns<SearchTiming> timings = timing_columns(measured.threads);
  if (format != Format::Json) {
    return fmt::format("{}\n{}\npeak memory {}\nsearch signature {} (the same for any threads)\n",
                       table_of(rate_columns(), measured.rates).text(),
                       table_of(timings, measured.searches).text(), to_text(measured.peak_memory),
                       hash_text(measured.signature));
  }
  const Json document{{"schema", "plansearch/bench/v2"},
                      {"threads", measured.threads},
                      {"rates", objects_of(rate_columns(), measured.rates)},
                      {"searches", objects_of(timings, measured.searches)},
                      {"peak_memory_bytes", measured.peak_memory.value()},
                      {"signature", hash_text(measured.signature)}};
  return json_text(document, 2) + "\n";
}

}  // namespace plansearch
