// SPDX-License-Identifier: Apache-2.0
// CPU time and memory of the search over sequences of dimensions and squares; a report, not a test.
//   sequence_bench [profile [bits [paper|all|sorted]]]
// GPT-3 175B with 32 sequences a micro-batch: every sequence divides its extents, so that over five
// bits a product has all 1,300 of the paper.
#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <vector>

#include "plan/stages/layer_distribution.hpp"
#include "plansearch/load_problem.hpp"
#include "search/strategies/partition/partition_planner.hpp"

namespace {

using namespace plansearch;

constexpr int kSequences = 32;

Problem problem_of(const char* hardware, int tensor) {
  ProblemRequest request;
  request.hardware = hardware;
  request.model = "gpt3-175b";
  request.framework = "primepar";
  request.gpus = tensor;
  request.batch = kSequences;
  return load_problem(request).problem;
}

PartitionSpace space_of(std::string_view word) {
  if (word == "all") return PartitionSpace::All;
  return word == "sorted" ? PartitionSpace::Sorted : PartitionSpace::Paper;
}

/// CPU seconds of the process so far.
double clock_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double peak_mebibytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024.0;
}

std::size_t most_options(const PartitionPlanner& planner, const Network& network) {
  std::size_t most = 0;
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    if (planner.tables(b) == nullptr) continue;
    for (const FusedGroupOptions& launch : planner.tables(b)->launches()) {
      most = std::max(most, launch.options.size());
    }
  }
  return most;
}

void report(const char* hardware, int bits, PartitionSpace space) {
  const int tensor = 1 << bits;
  const Problem problem = problem_of(hardware, tensor);
  PlanDegrees degrees;
  degrees.tensor_out = tensor;
  degrees.micro_batch = kSequences;
  const double start = clock_seconds();
  const PartitionPlanner planner({problem, degrees, space});
  const std::size_t most = most_options(planner, *problem.network);  // prices everything
  const double made = clock_seconds();
  const auto best = planner.best(Recompute::None, Rings::Hidden, 0.0);
  const double found = clock_seconds();
  fmt::print(
      "{:3} devices, up to {:4} sequences: costs {:7.3f} s, choice {:6.3f} s, in all {:7.3f} s; "
      "{:6.0f} MiB; sum {:.9g} s\n",
      tensor, most, made - start, found - made, found - start, peak_mebibytes(),
      best ? best->sum.value() : 0.0);
}

}  // namespace

int main(int argc, char** argv) {
  const char* hardware = argc > 1 ? argv[1] : "dgx-h100";
  const PartitionSpace space = space_of(argc > 3 ? argv[3] : "paper");
  std::vector<int> all{1, 2, 3, 4, 5};
  if (argc > 2) all = {std::atoi(argv[2])};
  for (const int bits : all) report(hardware, bits, space);
  return 0;
}
