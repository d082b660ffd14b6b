// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backends/cuda_calls.hpp"

namespace plansearch::calibrate {

std::unique_ptr<Messages> make_messages(const CudaLibrary& /*cuda*/,
                                        const std::vector<int>& /*devices*/,
                                        Processes* /*processes*/) {
  throw Unmeasurable{"this build is without NCCL: nccl.h was not found"};
}

}  // namespace plansearch::calibrate
