// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.hpp"
#include "cli/completion.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"

namespace plansearch::cli {

int run_completion(const Options& options) {
  Output(options).write(completion_script(options.argument));
  return kExitOk;
}

}  // namespace plansearch::cli
