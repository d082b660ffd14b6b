// SPDX-License-Identifier: Apache-2.0
// Work over threads, and what its tasks borrow one at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

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

/// Thread-safe. Runs a function the first time it is asked to, and again where that threw.
/// std::call_once has a frame of the C library, which aborts where an exception passes it without
/// memory to unwind.
class Once {
 public:
  template <typename Function>
  void run(const Function& function) {
    if (done_.load(std::memory_order_acquire)) return;
    const std::scoped_lock lock(mutex_);
    if (done_.load(std::memory_order_relaxed)) return;
    function();
    done_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> done_ = false;
  std::mutex mutex_;
};

/// Thread-safe. Holds as many things as were ever borrowed at the same time; which one a task gets
/// must not matter for what it computes.
template <typename T>
class Pool {
 public:
  explicit Pool(std::function<T()> make) : make_(std::move(make)) {}

  /// Calls use(thing) with a thing that no other thread uses meanwhile. A thing in use during an
  /// exception is not returned to the pool.
  template <typename Use>
  auto with(Use use) {
    T thing = take();
    auto result = use(thing);
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(thing));
    return result;
  }

 private:
  T take() {
    {
      const std::scoped_lock lock(mutex_);
      if (!idle_.empty()) {
        T thing = std::move(idle_.back());
        idle_.pop_back();
        return thing;
      }
    }
    return make_();
  }

  std::function<T()> make_;
  std::mutex mutex_;
  std::vector<T> idle_;
};

}  // namespace plansearch
