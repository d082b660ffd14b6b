// SPDX-License-Identifier: Apache-2.0
// What the process tells its caller.
#pragma once

namespace plansearch::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitInternalError = 1;
inline constexpr int kExitBadInput = 2;       ///< usage, unreadable or unwritable file, bad degrees
inline constexpr int kExitInfeasible = 3;     ///< nothing fits; the answer says what would help
inline constexpr int kExitInexpressible = 4;  ///< the target cannot express the plan
inline constexpr int kExitInterrupted = 130;  ///< the best so far was printed

}  // namespace plansearch::cli
