// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.hpp"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <system_error>
#include <thread>

#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

/// One call of parallel_for: indices are handed out in order until all are done or one has failed.
class Work {
 public:
  Work(std::size_t count, const std::function<void(std::size_t)>& fn) : count_(count), fn_(fn) {}

  void take_part() {
    const StopScope scope(token_);
    while (!stopped_.load(std::memory_order_relaxed)) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= count_) return;
      try {
        check_stop();
        fn_(index);
      } catch (...) {
        fail(index, std::current_exception());
      }
    }
  }

  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  /// Keeps the exception of the lowest index.
  void fail(std::size_t index, std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    if (error_ == nullptr || index < failed_) {
      failed_ = index;
      error_ = std::move(error);
    }
    stopped_.store(true, std::memory_order_relaxed);
  }

  std::size_t count_;
  const std::function<void(std::size_t)>& fn_;
  const StopToken* token_ = stop_token();
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::size_t failed_ = 0;
  std::exception_ptr error_;
};

/// Threads that wait for work between calls; as many as any call has wanted so far.
class ThreadPool {
 public:
  ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() {
    {
      const std::scoped_lock lock(mutex_);
      closing_ = true;
    }
    wake_.notify_all();
  }

  /// Does the work with the calling thread and up to `helpers` others. A call from inside another
  /// call, or at the same time as one, gets no helpers.
  void run(Work& work, std::size_t helpers) {
    const bool first = begin(work, helpers);
    work.take_part();
    if (first) end();
  }

 private:
  bool begin(Work& work, std::size_t helpers) {
    const std::scoped_lock lock(mutex_);
    if (work_ != nullptr) return false;
    grow(helpers);
    work_ = &work;
    seats_ = std::min(helpers, threads_.size());
    if (seats_ > 0) wake_.notify_all();
    return true;
  }

  void end() {
    std::unique_lock lock(mutex_);
    seats_ = 0;
    done_.wait(lock, [&] { return busy_ == 0; });
    work_ = nullptr;
  }

  void grow(std::size_t wanted) {
    try {
      while (threads_.size() < wanted) threads_.emplace_back([this] { help(); });
    } catch (const std::system_error&) {
      // No thread left: the work is done by those there are.
    }
  }

  void help() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return closing_ || seats_ > 0; });
      if (closing_) return;
      --seats_;
      ++busy_;
      Work& work = *work_;
      lock.unlock();
      work.take_part();
      lock.lock();
      if (--busy_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  Work* work_ = nullptr;
  std::size_t seats_ = 0;  ///< helpers that may still join
  std::size_t busy_ = 0;
  bool closing_ = false;
  std::vector<std::jthread> threads_;  ///< last: joined before the rest goes
};

ThreadPool& pool() {
  static ThreadPool instance;
  return instance;
}

}  // namespace

void parallel_for(std::size_t count, int threads, const std::function<void(std::size_t)>& fn) {
  Work work(count, fn);
  const std::size_t wanted = std::min(count, static_cast<std::size_t>(std::max(threads, 1)));
  if (wanted > 1) {
    pool().run(work, wanted - 1);
  } else {
    work.take_part();
  }
  work.rethrow();
}

int available_threads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace plansearch
