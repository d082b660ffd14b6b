// SPDX-License-Identifier: Apache-2.0
#include "answer/write_execution_traces.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "exchange/traces/execution_trace.hpp"
#include "exchange/traces/step_nodes.hpp"
#include "io/document/file.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "report/plan_cells.hpp"

namespace plansearch {
namespace {

constexpr std::int64_t kMostNodes = 20'000'000;

std::filesystem::path stem_of(const std::string& out) {
  if (out.empty() || out == "-") {
    throw InputError(
        {}, "--to chakra writes a file a rank, and needs a name for them",
        "--out step.json writes step.json (groups of ranks), step.0.et, step.1.et ...");
  }
  return std::filesystem::path(out).replace_extension();
}

}  // namespace

ExportResult write_execution_traces(const Problem& problem, const ParallelPlan& plan,
                                    const std::string& out, const std::string& version) {
  const std::filesystem::path stem = stem_of(out);
  const PlanEvaluator evaluator(problem);
  const StepNodes step = step_nodes(evaluator, plan);
  const ExecutionTraces traces(
      step, plan,
      {"plansearch " + version,
       fmt::format("{} on {} x {} ({}), batch {} of {} tokens", problem.model->name, problem.gpus,
                   problem.cluster->accelerator.name, problem.cluster->name, problem.global_batch,
                   problem.seq_len)});
  if (traces.nodes() > kMostNodes) {
    throw InputError({},
                     fmt::format("the traces of {} ranks have {} nodes, more than {}",
                                 traces.ranks(), grouped(traces.nodes()), grouped(kMostNodes)),
                     "fewer GPUs of the same groups (a smaller dp), or a smaller --batch");
  }
  for (int rank = 0; rank < traces.ranks(); ++rank) {
    io::NewFile file(fmt::format("{}.{}.et", stem.string(), rank));
    traces.write(rank, [&](std::string_view text) { file.append(text); });
    file.commit();
  }
  return {traces.groups(),
          {fmt::format("{0}.0.et to {0}.{1}.et: {2} nodes; for ASTRA-sim: --workload-configuration="
                       "{0} --comm-group-configuration={3}",
                       stem.string(), traces.ranks() - 1, grouped(traces.nodes()), out),
           "kernels last as long as predicted, what they lose beside messages left out; messages "
           "are the simulator's to time"}};
}

}  // namespace plansearch
