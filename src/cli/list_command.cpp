// SPDX-License-Identifier: Apache-2.0
#include "answer/listings.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"

namespace plansearch::cli {

int run_list(const Options& options) {
  const Output output(options);
  output.write(
      render_listing(shipped_listing(options.argument), format_of(options), columns_of(options)));
  return kExitOk;
}

}  // namespace plansearch::cli
