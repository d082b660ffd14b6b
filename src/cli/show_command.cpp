// SPDX-License-Identifier: Apache-2.0
#include "answer/show.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"

namespace plansearch::cli {

int run_show(const Options& options) {
  const Output output(options);
  output.write(render_shown(show_file(options.argument, options.shown), format_of(options),
                            columns_of(options)));
  return kExitOk;
}

}  // namespace plansearch::cli
