// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backends/cpu_trials.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

#include "base/parallel.hpp"
#include "measure/calibrate/backends/cpu_loops.hpp"
#include "measure/calibrate/probe.hpp"
#include "plansearch/error.hpp"

namespace plansearch::calibrate {
namespace {

/// A library, and how it is told threads and tells them.
struct BlasLibrary {
  const char* file;
  const char* set_threads;
  const char* get_threads;
  const char* config;
};
constexpr std::array kLibraries{
    BlasLibrary{"libmkl_rt.so.2", "MKL_Set_Num_Threads", "MKL_Get_Max_Threads", nullptr},
    BlasLibrary{"libopenblas.so.0", "openblas_set_num_threads", "openblas_get_num_threads",
                "openblas_get_config"},
    BlasLibrary{"libblis.so.4", nullptr, nullptr, nullptr},
    BlasLibrary{"libblas.so.3", nullptr, nullptr, nullptr}};

template <typename Function>
Function symbol(void* library, const char* name) {
  return name == nullptr ? nullptr : reinterpret_cast<Function>(::dlsym(library, name));
}

std::optional<Blas> load(const BlasLibrary& row, const char* file, int threads) {
  void* library = ::dlopen(file, RTLD_NOW | RTLD_LOCAL);  // for the life of the process
  if (library == nullptr) return std::nullopt;
  Blas blas;
  blas.sgemm = symbol<Sgemm>(library, "cblas_sgemm");
  if (blas.sgemm == nullptr) return std::nullopt;
  blas.name = file;
  if (const auto config = symbol<const char* (*)()>(library, row.config)) blas.name = config();
  const auto set = symbol<void (*)(int)>(library, row.set_threads);
  if (threads > 0 && set != nullptr) set(threads);
  if (const auto get = symbol<int (*)()>(library, row.get_threads)) blas.threads = get();
  return blas;
}

}  // namespace

std::unique_ptr<Trial> cpu_product(const CpuPlace& place, const Point& point) {
  if (point.word("dtype") != "fp32") throw Unmeasurable{"only products of fp32"};
  const auto whole = [&](const char* name) { return static_cast<int>(point.number(name)); };
  const int m = whole("m");
  const int n = whole("n");
  const int k = whole("k");
  const auto batch = static_cast<std::size_t>(whole("batch"));
  const bool a_turned = point.word("layout") == "tn";
  const bool b_turned = point.word("layout") == "nt";
  const std::size_t operands = area(m, k) + area(k, n);
  Rotation rotation = place.rotation;
  const float* read = place.read.at_least(operands * batch * rotation.sets());
  float* written = place.written.at_least(area(m, n) * batch * rotation.sets());
  return clocked([=, &blas = place.blas]() mutable {
    constexpr int kRowMajor = 101;
    constexpr int kPlain = 111;
    constexpr int kTransposed = 112;
    const std::size_t first = rotation.next() * batch;
    for (std::size_t i = first; i < first + batch; ++i) {
      const float* a = read + i * operands;
      const float* b = a + area(m, k);
      blas.sgemm(kRowMajor, a_turned ? kTransposed : kPlain, b_turned ? kTransposed : kPlain, m, n,
                 k, 1.0F, a, a_turned ? m : k, b, b_turned ? k : n, 0.0F, written + i * area(m, n),
                 n);
    }
  });
}

std::unique_ptr<Trial> cpu_pass(const CpuPlace& place, const Point& point) {
  const StreamPass& pass = stream_pass(point);
  const auto threads = static_cast<std::size_t>(place.threads);
  const auto reads = static_cast<std::size_t>(pass.only_read());
  const auto writes = static_cast<std::size_t>(pass.writes);
  const std::size_t count = static_cast<std::size_t>(point.number("bytes")) / sizeof(float) /
                            static_cast<std::size_t>(pass.reads + pass.writes);
  Rotation rotation = place.rotation;
  const float* all_read = place.read.at_least(reads * count * rotation.sets());
  float* all_written = place.written.at_least(writes * count * rotation.sets());
  return clocked([=, run = memory_pass(pass.name)]() mutable {
    const std::size_t set = rotation.next();
    const float* read = all_read + set * reads * count;
    float* written = all_written + set * writes * count;
    if (threads <= 1) return run(read, written, count, count);
    constexpr std::size_t kRow = 1024;
    const std::size_t part = (count / threads + kRow - 1) / kRow * kRow;
    parallel_for(threads, static_cast<int>(threads), [&](std::size_t i) {
      const std::size_t from = std::min(count, i * part);
      run(read + from, written + from, std::min(part, count - from), count);
    });
  });
}

Blas load_blas(int threads) {
  if (const char* named = std::getenv("PLANSEARCH_BLAS"); named != nullptr && *named != '\0') {
    const BlasLibrary any{named, "openblas_set_num_threads", "openblas_get_num_threads",
                          "openblas_get_config"};
    if (auto blas = load(any, named, threads)) return *blas;
    throw InputError({}, fmt::format("PLANSEARCH_BLAS={}: no library with a cblas_sgemm", named),
                     "name the file of one, or unset the variable");
  }
  for (const BlasLibrary& row : kLibraries) {
    if (auto blas = load(row, row.file, threads)) return *blas;
  }
  return {plain_sgemm, "plain loops of plansearch (no CBLAS library found)", 1};
}

}  // namespace plansearch::calibrate
