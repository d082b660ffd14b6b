// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/blas.hpp"

#include <dlfcn.h>

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <optional>

#include "calibrate/backends/cpu_loops.hpp"
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
