// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backend.hpp"

namespace plansearch::calibrate {

std::unique_ptr<Backend> make_cuda(const BackendOptions& /*options*/, const ShippedData& /*data*/) {
  throw Unmeasurable{"this build is without CUDA: its toolkit was not found",
                     "build where cuda_runtime_api.h is found (PLANSEARCH_CUDA=ON says what is "
                     "missing), or measure the processor with --backend cpu"};
}

}  // namespace plansearch::calibrate
