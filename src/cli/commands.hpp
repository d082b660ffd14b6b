// SPDX-License-Identifier: Apache-2.0
// The commands: each reads what it needs, writes its answer and says how it went.
#pragma once

#include "cli/options.hpp"

namespace plansearch::cli {

// Exit codes.
inline constexpr int kExitOk = 0;
inline constexpr int kExitInternalError = 1;
inline constexpr int kExitBadInput = 2;       ///< usage, unreadable or unwritable file, bad degrees
inline constexpr int kExitInfeasible = 3;     ///< nothing fits; the answer says what would help
inline constexpr int kExitInexpressible = 4;  ///< the target cannot express the plan
inline constexpr int kExitInterrupted = 130;  ///< the best so far was printed

/// The command of the options, within their limits.
[[nodiscard]] int run_command(const Options& options);

// Each returns one of these, and throws InputError for what the user can mend.
[[nodiscard]] int run_search(const Options& options);
[[nodiscard]] int run_compare(const Options& options);
[[nodiscard]] int run_predict(const Options& options);
[[nodiscard]] int run_fits(const Options& options);
[[nodiscard]] int run_capacity(const Options& options);
[[nodiscard]] int run_diagnose(const Options& options);
[[nodiscard]] int run_sweep(const Options& options);
[[nodiscard]] int run_explain(const Options& options);
[[nodiscard]] int run_export(const Options& options);
[[nodiscard]] int run_list(const Options& options);
[[nodiscard]] int run_show(const Options& options);
[[nodiscard]] int run_schedule(const Options& options);
[[nodiscard]] int run_completion(const Options& options);

}  // namespace plansearch::cli
