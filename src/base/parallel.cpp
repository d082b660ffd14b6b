// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace plansearch {
namespace {

/// The exception of the lowest index seen so far.
class FirstFailure {
 public:
  void record(std::size_t index, std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    if (error_ == nullptr || index < index_) {
      index_ = index;
      error_ = std::move(error);
    }
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::size_t index_ = 0;
  std::exception_ptr error_;
};

}  // namespace

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& fn) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stopped{false};
  FirstFailure failure;
  const auto work = [&] {
    while (!stopped.load(std::memory_order_relaxed)) {
      const std::size_t index = next.fetch_add(1, std::memory_order_relaxed);
      if (index >= count) return;
      try {
        fn(index);
      } catch (...) {
        failure.record(index, std::current_exception());
        stopped.store(true, std::memory_order_relaxed);
      }
    }
  };
  {
    const std::size_t wanted = std::min(count, static_cast<std::size_t>(std::max(threads, 1)));
    std::vector<std::jthread> helpers;
    helpers.reserve(wanted);
    for (std::size_t i = 1; i < wanted; ++i) helpers.emplace_back(work);
    work();
  }
  failure.rethrow();
}

int available_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace plansearch
