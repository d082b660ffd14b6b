// SPDX-License-Identifier: Apache-2.0
// Messages among the GPUs of this machine, by NCCL in one process.
#pragma once

#include <memory>
#include <string>

#include "calibrate/backend.hpp"
#include "calibrate/backends/cuda_library.hpp"

namespace plansearch::calibrate {

class Messages {
 public:
  Messages() = default;
  virtual ~Messages() = default;
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  [[nodiscard]] virtual std::string version() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Trial> prepare(const Point& point) = 0;
};

/// Throws Unmeasurable with what is missing: the header when this was built, the library, a second
/// GPU.
[[nodiscard]] std::unique_ptr<Messages> make_messages(const CudaLibrary& cuda);

}  // namespace plansearch::calibrate
