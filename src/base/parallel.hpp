// SPDX-License-Identifier: Apache-2.0
// The one function that distributes work over threads.
#pragma once

#include <cstddef>
#include <functional>

namespace plansearch {

/// Calls fn(0) .. fn(count - 1) on up to `threads` threads (the calling one included) and returns
/// when all have finished. Indices are handed out in order. When calls throw, no new index is
/// handed out and the exception of the lowest index is rethrown: which one that is does not
/// depend on the number of threads. Threads wait for the next call instead of ending; a call from
/// inside `fn` runs on its own thread, and where the system refuses more threads, fewer do the
/// work. Threads obey the stop token of the calling one, which is asked before every call.
void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& fn);

/// Cores this process may use; at least 1.
[[nodiscard]] int available_threads();

}  // namespace plansearch
