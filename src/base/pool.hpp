// SPDX-License-Identifier: Apache-2.0
// Things that tasks borrow one at a time and give back: buffers that grow once.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace plansearch {

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
