// SPDX-License-Identifier: Apache-2.0
// The commands: each reads what it needs, writes its answer and says how it went.
#pragma once

#include "cli/options.hpp"

namespace plansearch::cli {

// Each returns an exit code (exit_code.hpp) and throws InputError for what the user can mend.
[[nodiscard]] int run_search(const Options& options);
[[nodiscard]] int run_compare(const Options& options);
[[nodiscard]] int run_predict(const Options& options);
[[nodiscard]] int run_validate(const Options& options);
[[nodiscard]] int run_fit(const Options& options);
[[nodiscard]] int run_reproduce(const Options& options);
[[nodiscard]] int run_explain(const Options& options);
[[nodiscard]] int run_export(const Options& options);
[[nodiscard]] int run_list(const Options& options);
[[nodiscard]] int run_show(const Options& options);
[[nodiscard]] int run_schedule(const Options& options);
[[nodiscard]] int run_bench(const Options& options);
[[nodiscard]] int run_completion(const Options& options);

}  // namespace plansearch::cli
