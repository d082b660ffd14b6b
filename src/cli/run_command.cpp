// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.hpp"
#include "cli/progress.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::cli {
int run_command(const Options& options) {
  const StopToken token(stop_limits(options));
  const StopScope scope(&token);
  return options.run(options);
}

}  // namespace plansearch::cli
