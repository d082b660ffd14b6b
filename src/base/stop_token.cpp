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
    : memory_(limits.memory), signal_(limits.signal), outer_(outer) {
  constexpr std::chrono::duration<double> kLongest = std::chrono::hours(24 * 365);
  if (limits.time && *limits.time < kLongest) {
    end_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(*limits.time);
  }
}

StopReason StopToken::reason() const {
  StopReason known = reason_.load(std::memory_order_relaxed);
  if (known != StopReason::None) return known;
  known = look();
  if (known == StopReason::None && outer_ != nullptr) known = outer_->reason();
  if (known != StopReason::None) reason_.store(known, std::memory_order_relaxed);
  return known;
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

}  // namespace plansearch
