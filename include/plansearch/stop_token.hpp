// SPDX-License-Identifier: Apache-2.0
// When work has to end before it is done: a time limit, a signal, or the memory that it takes.
//
//   const StopToken token({.time = std::chrono::seconds(10)});
//   const StopScope scope(&token);
//   SearchResult result = search(evaluator, space, options);  // the best of ten seconds
//
// Everything that may take long asks check_stop(). A search that is stopped returns what it has
// found; work without a part that is worth having ends by the exception.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>

#include "plansearch/quantity.hpp"

namespace plansearch {

enum class StopReason : std::uint8_t { None, TimeLimit, MemoryLimit, Signal, WorkLimit };

struct StopLimits {
  std::optional<std::chrono::duration<double>> time{};  ///< from the making of the token
  std::optional<Bytes> memory{};                        ///< resident, of the whole process
  const std::atomic<bool>* signal = nullptr;            ///< set by others
  std::chrono::milliseconds after_outer{0};             ///< how much longer than the outer token
  std::optional<std::int64_t> work{};                   ///< see check_work
};

/// Thread-safe. A token that has said stop says so for ever.
class StopToken {
 public:
  /// Stops with `outer` as well, or so much later.
  explicit StopToken(const StopLimits& limits, const StopToken* outer = nullptr);
  [[nodiscard]] StopReason reason() const;
  void count_work(std::int64_t units) const;
  [[nodiscard]] bool is_work_done() const;

 private:
  using Clock = std::chrono::steady_clock;
  [[nodiscard]] StopReason look() const;
  [[nodiscard]] StopReason look_at_outer() const;

  Clock::time_point end_ = Clock::time_point::max();
  std::optional<Bytes> memory_;
  const std::atomic<bool>* signal_;
  const StopToken* outer_;
  std::chrono::milliseconds after_outer_;
  std::optional<std::int64_t> most_work_;
  mutable std::atomic<std::int64_t> work_{0};
  mutable std::atomic<Clock::rep> outer_end_{0};  ///< when the outer one was seen to stop
  mutable std::atomic<StopReason> reason_{StopReason::None};
  mutable std::atomic<Clock::rep> next_memory_look_{0};
};

/// Until its end the token rules the calling thread, and parallel_for on its behalf. Null: nothing
/// stops it. The token lives longer than the scope.
class StopScope {
 public:
  explicit StopScope(const StopToken* token);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const StopToken* before_;
};

/// The one that rules the calling thread; null: none.
[[nodiscard]] const StopToken* stop_token();

/// Until its end nothing throws Stopped on the calling thread: for what has to be finished, and
/// looks itself whether the time is over.
class StopPoll {
 public:
  [[nodiscard]] bool is_late() const {
    return token_ != nullptr && token_->reason() != StopReason::None;
  }

 private:
  const StopToken* token_ = stop_token();
  StopScope scope_{nullptr};
};

/// Until its end the calling thread stops a moment later than its token says: for telling the
/// plans that were found by then.
class LastMoment {
 public:
  explicit LastMoment(std::chrono::milliseconds longer = std::chrono::milliseconds(200))
      : token_({.after_outer = longer}, stop_token()) {}

 private:
  StopToken token_;
  StopScope scope_{&token_};
};

struct Stopped : std::exception {
  explicit Stopped(StopReason why) : reason(why) {}
  [[nodiscard]] const char* what() const noexcept override { return "stopped"; }
  StopReason reason;
};

/// Makes an addition to an answer: the result of `make`, nullptr or nullopt where it was stopped.
template <typename Make>
[[nodiscard]] auto unless_stopped(Make make) -> decltype(make()) {
  try {
    return make();
  } catch (const Stopped&) {
    return {};
  }
}

/// Why the calling thread has to stop.
[[nodiscard]] StopReason stop_reason();

/// Throws Stopped where the token of the calling thread says so. Takes some ten nanoseconds.
void check_stop();

/// Work by number, the same on every machine under any load: steps of orders that are simulated; what
/// else is done counts as so many that take as long, some five nanoseconds each.
void count_work(std::int64_t steps);

/// Throws Stopped where more work was counted than the token of the calling thread admits. For places
/// that all threads have come to, where the sum does not depend on their number.
void check_work();

/// check_stop() once in `every` calls: for loops of less than a microsecond a turn.
class OccasionalStop {
 public:
  explicit OccasionalStop(unsigned every) : every_(every) {}
  void check() {
    if (++calls_ % every_ == 0) check_stop();
  }

 private:
  unsigned every_;
  unsigned calls_ = 0;
};

}  // namespace plansearch
