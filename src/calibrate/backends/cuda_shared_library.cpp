// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/cuda_shared_library.hpp"

#include <cstdlib>

namespace plansearch::calibrate {
namespace {

std::vector<std::string> folders() {
  std::vector<std::string> all{""};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(variable)) all.push_back(std::string(home) + "/lib64/");
  }
  all.emplace_back("/usr/local/cuda/lib64/");
  return all;
}

}  // namespace

CudaSharedLibrary::CudaSharedLibrary(const std::string& stem,
                                     const std::vector<std::string>& versions)
    : stem_(stem) {
  for (const std::string& version : versions) {
    for (const std::string& folder : folders()) {
      const std::string file = folder + stem + ".so" + version;
      handle_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL);
      if (handle_ != nullptr) return;
    }
  }
  throw Unmeasurable{fmt::format("{}.so is not on this machine", stem),
                     "install the CUDA libraries, or set CUDA_HOME"};
}

}  // namespace plansearch::calibrate
