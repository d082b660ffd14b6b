// SPDX-License-Identifier: Apache-2.0
// Preloaded into plansearch, makes one call of the system fail: the PLANSEARCH_FAIL_AT-th of the
// kind PLANSEARCH_FAIL (allocation, open, read, write, sync, rename), or with PLANSEARCH_FAIL_ON
// all from that one on. Without them it counts, and leaves the counts in the file
// PLANSEARCH_COUNTS.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

enum Kind { kAllocation, kOpen, kRead, kWrite, kSync, kRename, kKinds };
constexpr std::array<const char*, kKinds> kNames{"allocation", "open", "read",
                                                 "write",      "sync", "rename"};
constexpr std::array<int, kKinds> kReasons{ENOMEM, EMFILE, EIO, ENOSPC, EIO, EACCES};

std::array<std::atomic<long>, kKinds> counts{};
std::atomic<int> failing{kKinds};
std::atomic<long> fail_at{0};
std::atomic<bool> fail_on{false};
std::atomic<bool> ready{false};

bool fails(Kind kind) {
  if (!ready.load(std::memory_order_relaxed)) return false;
  const long count = counts[kind].fetch_add(1) + 1;
  if (failing.load(std::memory_order_relaxed) != kind) return false;
  if (fail_on.load() ? count < fail_at.load() : count != fail_at.load()) return false;
  errno = kReasons[kind];
  return true;
}

template <typename Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

void begin() {
  if (const char* kind = std::getenv("PLANSEARCH_FAIL")) {
    for (int i = 0; i < kKinds; ++i) {
      if (std::strcmp(kind, kNames[static_cast<std::size_t>(i)]) == 0) failing = i;
    }
  }
  if (const char* at = std::getenv("PLANSEARCH_FAIL_AT")) fail_at = std::atol(at);
  fail_on = std::getenv("PLANSEARCH_FAIL_ON") != nullptr;
  ready = true;
}

using Main = int (*)(int, char**, char**);
Main real_main = nullptr;

/// What static objects do before is the loader's business.
int main_that_counts(int count, char** arguments, char** environment) {
  begin();
  return real_main(count, arguments, environment);
}

__attribute__((destructor)) void end() {
  ready = false;
  const char* file = std::getenv("PLANSEARCH_COUNTS");
  if (file == nullptr) return;
  if (std::FILE* out = std::fopen(file, "w")) {
    for (std::size_t i = 0; i < kKinds; ++i) {
      std::fprintf(out, "%s %ld\n", kNames[i], counts[i].load());
    }
    std::fclose(out);
  }
}

}  // namespace

extern "C" {

int __libc_start_main(Main wanted, int count, char** arguments, void (*init)(), void (*fini)(),
                      void (*rtld_fini)(), void* stack_end) {
  real_main = wanted;
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  return next<Start>("__libc_start_main")(main_that_counts, count, arguments, init, fini, rtld_fini,
                                          stack_end);
}

void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);

void* malloc(std::size_t size) {
  return fails(kAllocation) ? nullptr : __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
  return fails(kAllocation) ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
  return fails(kAllocation) ? nullptr : __libc_realloc(old, size);
}

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const int mode = va_arg(arguments, int);
  va_end(arguments);
  static const auto real = next<int (*)(const char*, int, ...)>("open");
  return fails(kOpen) ? -1 : real(path, flags, mode);
}
int mkostemp(char* pattern, int flags) {
  static const auto real = next<int (*)(char*, int)>("mkostemp");
  return fails(kOpen) ? -1 : real(pattern, flags);
}
ssize_t read(int descriptor, void* buffer, std::size_t size) {
  static const auto real = next<ssize_t (*)(int, void*, std::size_t)>("read");
  return fails(kRead) ? -1 : real(descriptor, buffer, size);
}
/// Messages are never made to fail: they are what the test reads.
ssize_t write(int descriptor, const void* buffer, std::size_t size) {
  static const auto real = next<ssize_t (*)(int, const void*, std::size_t)>("write");
  if (descriptor != STDERR_FILENO && fails(kWrite)) return -1;
  return real(descriptor, buffer, size);
}
int fsync(int descriptor) {
  static const auto real = next<int (*)(int)>("fsync");
  return fails(kSync) ? -1 : real(descriptor);
}
int rename(const char* from, const char* to) {
  static const auto real = next<int (*)(const char*, const char*)>("rename");
  return fails(kRename) ? -1 : real(from, to);
}
}
