// SPDX-License-Identifier: Apache-2.0
#include "commands.hpp"
#include "completion.hpp"
#include "exit_code.hpp"
#include "output.hpp"

namespace plansearch::cli {

int run_completion(const Options& options) {
  Output(options).write(completion_script(options.argument));
  return kExitOk;
}

}  // namespace plansearch::cli
