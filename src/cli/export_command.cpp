// SPDX-License-Identifier: Apache-2.0
#include "answer/export_question.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch::cli {

int run_export(const Options& options) {
  const Output output(options);
  const ResolvedPlan given = resolve_plan(complete_from_plan(options, options.plan));
  for (const std::string& note : given.asked.notes) print_note(note, options);
  if (given.inexpressible) {
    print_error(*given.inexpressible, options);
    return kExitInexpressible;
  }
  const auto answer = export_question(given,
                                      {options.to, options.launch, options.sbatch, options.image,
                                       options.checkpoints, options.save_every, options.out},
                                      PLANSEARCH_VERSION);
  if (const auto* cannot = std::get_if<RefusedPlan>(&answer)) {
    print_error(cannot->message, options);
    return kExitInexpressible;
  }
  const auto& exported = std::get<ExportResult>(answer);
  output.write(exported.text);
  for (const std::string& note : exported.notes) print_note(note, options);
  return kExitOk;
}

}  // namespace plansearch::cli
