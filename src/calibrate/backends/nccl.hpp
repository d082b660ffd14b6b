// SPDX-License-Identifier: Apache-2.0
// Messages among GPUs by NCCL: all of a node in one process, or one GPU a process over many nodes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calibrate/backends/cuda_calls.hpp"
#include "calibrate/processes/processes.hpp"

namespace plansearch::calibrate {

class Messages {
 public:
  Messages() = default;
  virtual ~Messages() = default;
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;
  [[nodiscard]] virtual std::string version() const = 0;
  /// Ranks of all processes.
  [[nodiscard]] virtual int ranks() const = 0;
  [[nodiscard]] virtual std::unique_ptr<DeviceCall> prepare(const Point& point) = 0;
};

/// Messages of the devices of this process; `processes` is null where there is one. Throws
/// Unmeasurable with what is missing: the header when this was built, the library, a second GPU.
[[nodiscard]] std::unique_ptr<Messages> make_messages(const CudaLibrary& cuda,
                                                      const std::vector<int>& devices,
                                                      Processes* processes);

}  // namespace plansearch::calibrate
