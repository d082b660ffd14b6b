// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "studies/reproduce/reproduce.hpp"

namespace plansearch::cli {

int run_reproduce(const Options& options) {
  const Output output(options);
  const int threads = options.threads > 0 ? options.threads : available_threads();
  output.write(reproduce(options.argument, {shipped_data(), threads}, format_of(options),
                         columns_of(options)));
  return kExitOk;
}

}  // namespace plansearch::cli
