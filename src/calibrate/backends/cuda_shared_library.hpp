// SPDX-License-Identifier: Apache-2.0
// A library of the CUDA toolkit, loaded at run time.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "calibrate/backend.hpp"

namespace plansearch::calibrate {

/// One library in the first of its versions that is found, for the life of the process: where the
/// system looks, then under CUDA_HOME and /usr/local/cuda.
class CudaSharedLibrary {
 public:
  explicit CudaSharedLibrary(const std::string& stem, const std::vector<std::string>& versions = {
                                                          ".13", ".12", ".11.2", ".11"});

  template <typename Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    if (function == nullptr) throw Unmeasurable{fmt::format("{}.so has no {}", stem_, name)};
  }

 private:
  std::string stem_;
  void* handle_ = nullptr;
};

}  // namespace plansearch::calibrate
