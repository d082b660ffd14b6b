// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backend.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <chrono>

#include "measure/calibrate/backends/backend_rows.hpp"
#include "plansearch/error.hpp"

namespace plansearch::calibrate {

double Backend::now() const {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

std::span<const BackendRow> backends() {
  static constexpr std::array kBackends{
      BackendRow{"cpu", "this processor: a CBLAS library and loops over memory", make_cpu},
      BackendRow{"cuda",
                 "NVIDIA GPUs: cuBLASLt, cuDNN, memory and copies, NCCL, clocks and power by NVML",
                 make_cuda},
      BackendRow{"synthetic", "a profile with noise: what a fit should find is known",
                 make_synthetic},
      BackendRow{"replay", "times of CSV tables, as for validate", make_replay}};
  return kBackends;
}

std::unique_ptr<Backend> make_backend(std::string_view name, const BackendOptions& options,
                                      const ShippedData& data) {
  std::vector<std::string_view> known;
  for (const BackendRow& row : backends()) {
    if (row.name == name) return row.make(options, data);
    known.push_back(row.name);
  }
  throw InputError({}, fmt::format("there is no back end '{}'", name),
                   fmt::format("one of {}", fmt::join(known, ", ")));
}

}  // namespace plansearch::calibrate
