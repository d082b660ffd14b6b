// SPDX-License-Identifier: Apache-2.0
#include "studies/bench/bench.hpp"

#include "base/parallel.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"

namespace plansearch::cli {

int run_bench(const Options& options) {
  const Output output(options);
  const int threads = options.threads > 0 ? options.threads : available_threads();
  output.write(render_bench(plansearch::run_bench(threads), format_of(options)));
  return kExitOk;
}

}  // namespace plansearch::cli
