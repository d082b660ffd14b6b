// SPDX-License-Identifier: Apache-2.0
#include "plansearch/stop_token.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace plansearch {
namespace {

constexpr std::chrono::milliseconds kBetweenMemoryLooks{20};

thread_local const StopToken* current = nullptr;

/// Resident memory, by the second number of /proc/self/statm; 0 where there is no such file.
Bytes resident_memory() {
  std::array<char, 128> text{};
  const int file = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (file < 0) return Bytes(0);
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  const char* end = text.data() + std::max<ssize_t>(size, 0);
  const char* second = std::find(static_cast<const char*>(text.data()), end, ' ');
  std::int64_t pages = 0;
  if (second != end) std::from_chars(second + 1, end, pages);
  return Bytes(static_cast<double>(pages) * static_cast<double>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace

StopToken::StopToken(const StopLimits& limits, const StopToken* outer)
    : memory_(limits.memory),
      signal_(limits.signal),
      outer_(outer),
      after_outer_(limits.after_outer),
      most_work_(limits.work) {
  constexpr std::chrono::duration<double> kLongest = std::chrono::hours(24 * 365);
  if (limits.time && *limits.time < kLongest) {
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(*limits.time);
  }
}

StopReason StopToken::reason() const {
  StopReason known = reason_.load(std::memory_order_relaxed);
  if (known != StopReason::None) return known;
  known = look();
  if (known == StopReason::None && outer_ != nullptr) known = look_at_outer();
  if (known != StopReason::None) reason_.store(known, std::memory_order_relaxed);
  return known;
}

void StopToken::count_work(std::int64_t units) const {
  if (most_work_) work_.fetch_add(units, std::memory_order_relaxed);
  if (outer_ != nullptr) outer_->count_work(units);
}

bool StopToken::is_work_done() const {
  if (most_work_ && work_.load(std::memory_order_relaxed) > *most_work_) return true;
  return outer_ != nullptr && outer_->is_work_done();
}

StopReason StopToken::look_at_outer() const {
  const StopReason outer = outer_->reason();
  if (outer == StopReason::None || after_outer_.count() == 0) return outer;
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep end = 0;
  outer_end_.compare_exchange_strong(end, now, std::memory_order_relaxed);
  const bool over = end != 0 && now - end >= Clock::duration(after_outer_).count();
  return over ? outer : StopReason::None;
}

StopReason StopToken::look() const {
  if (signal_ != nullptr && signal_->load(std::memory_order_relaxed)) return StopReason::Signal;
  const Clock::time_point now = Clock::now();
  if (now >= end_) return StopReason::TimeLimit;
  const Clock::rep ticks = now.time_since_epoch().count();
  if (memory_ && ticks >= next_memory_look_.load(std::memory_order_relaxed)) {
    next_memory_look_.store(ticks + Clock::duration(kBetweenMemoryLooks).count(),
                            std::memory_order_relaxed);
    if (resident_memory() > *memory_) return StopReason::MemoryLimit;
  }
  return StopReason::None;
}

StopScope::StopScope(const StopToken* token) : before_(current) {
  current = token;
}

StopScope::~StopScope() {
  current = before_;
}

const StopToken* stop_token() {
  return current;
}

StopReason stop_reason() {
  return current == nullptr ? StopReason::None : current->reason();
}

void check_stop() {
  const StopReason reason = stop_reason();
  if (reason != StopReason::None) throw Stopped(reason);
}

void count_work(std::int64_t steps) {
  if (current != nullptr) current->count_work(steps);
}

void check_work() {
  if (current != nullptr && current->is_work_done()) throw Stopped(StopReason::WorkLimit);
}

}  // namespace plansearch
