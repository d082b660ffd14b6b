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

using Clock = std::chrono::steady_clock;

class GemmTrial final : public Trial {
 public:
  GemmTrial(const CpuPlace& place, const Point& point)
      : blas_(place.blas),
        layout_(point.word("layout")),
        batch_(static_cast<std::size_t>(point.number("batch"))),
        m_(static_cast<int>(point.number("m"))),
        n_(static_cast<int>(point.number("n"))),
        k_(static_cast<int>(point.number("k"))),
        rotation_(place.rotation),
        operands_(size(m_, k_) + size(k_, n_)),
        read_(place.read.at_least(operands_ * batch_ * rotation_.sets())),
        written_(place.written.at_least(size(m_, n_) * batch_ * rotation_.sets())) {}

  double run(int calls) override {
    const auto begin = Clock::now();
    for (int call = 0; call < calls; ++call) {
      const std::size_t set = rotation_.next() * batch_;
      for (std::size_t i = 0; i < batch_; ++i) multiply(set + i);
    }
    return seconds_since(begin);
  }

 private:
  static std::size_t size(int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }

  void multiply(std::size_t place) const {
    constexpr int kRowMajor = 101;
    constexpr int kPlain = 111;
    constexpr int kTransposed = 112;
    const bool a_turned = layout_ == "tn";
    const bool b_turned = layout_ == "nt";
    const float* a = read_ + place * operands_;
    const float* b = a + size(m_, k_);
    blas_.sgemm(kRowMajor, a_turned ? kTransposed : kPlain, b_turned ? kTransposed : kPlain, m_, n_,
                k_, 1.0F, a, a_turned ? m_ : k_, b, b_turned ? k_ : n_, 0.0F,
                written_ + place * size(m_, n_), n_);
  }

  const Blas& blas_;
  std::string layout_;
  std::size_t batch_;
  int m_;
  int n_;
  int k_;
  Rotation rotation_;
  std::size_t operands_;
  const float* read_;
  float* written_;
};

class StreamTrial final : public Trial {
 public:
  StreamTrial(const CpuPlace& place, const StreamPass& pass, double bytes)
      : run_(memory_pass(pass.name)),
        threads_(static_cast<std::size_t>(place.threads)),
        count_(static_cast<std::size_t>(bytes) / sizeof(float) /
               static_cast<std::size_t>(pass.reads + pass.writes)),
        // Arrays that are updated in place are not read elsewhere.
        reads_(static_cast<std::size_t>(pass.reads > 2 ? pass.reads - pass.writes : pass.reads)),
        writes_(static_cast<std::size_t>(pass.writes)),
        rotation_(place.rotation),
        read_(place.read.at_least(reads_ * count_ * rotation_.sets())),
        written_(place.written.at_least(writes_ * count_ * rotation_.sets())) {}

  double run(int calls) override {
    const auto begin = Clock::now();
    for (int call = 0; call < calls; ++call) pass_once(rotation_.next());
    return seconds_since(begin);
  }

 private:
  void pass_once(std::size_t set) const {
    const float* read = read_ + set * reads_ * count_;
    float* written = written_ + set * writes_ * count_;
    if (threads_ <= 1) {
      run_(read, written, count_, count_);
      return;
    }
    constexpr std::size_t kRow = 1024;
    const std::size_t part = (count_ / threads_ + kRow - 1) / kRow * kRow;
    parallel_for(threads_, static_cast<int>(threads_), [&](std::size_t i) {
      const std::size_t from = std::min(count_, i * part);
      run_(read + from, written + from, std::min(part, count_ - from), count_);
    });
  }

  MemoryPass run_;
  std::size_t threads_;
  std::size_t count_;
  std::size_t reads_;
  std::size_t writes_;
  Rotation rotation_;
  const float* read_;
  float* written_;
};

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
  return std::make_unique<GemmTrial>(place, point);
}

std::unique_ptr<Trial> cpu_pass(const CpuPlace& place, const Point& point) {
  return std::make_unique<StreamTrial>(place, stream_pass(point), point.number("bytes"));
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
