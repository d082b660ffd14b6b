// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "studies/validate/validate_table.hpp"

namespace plansearch::cli {

int run_validate(const Options& options) {
  const Output output(options);
  const int threads = options.threads > 0 ? options.threads : available_threads();
  output.write(
      validate_table({options.argument, options.group_by, options.suspects,
                      options.site.value_or(""), options.min_mfu, threads, format_of(options),
                      columns_of(options), options.fit_on, options.repeat},
                     shipped_data()));
  return kExitOk;
}

}  // namespace plansearch::cli
