// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/cuda_kernels.hpp"

#include <doctest/doctest.h>

#include "calibrate/backend.hpp"
#include "calibrate/backends/cuda_library.hpp"

namespace plansearch::calibrate {

TEST_SUITE("unit") {
  TEST_CASE("passes over memory compile for every generation that is measured") {
    for (const int capability : {75, 80, 90, 100}) {
      CAPTURE(capability);
      try {
        const std::string code = compile_for(kCudaPasses, capability);
        for (const char* name :
             {".entry pass_elementwise", ".entry pass_norm", ".entry pass_optimizer"}) {
          CHECK(code.find(name) != std::string::npos);
        }
      } catch (const Unmeasurable& missing) {
        CHECK(missing.reason == "libnvrtc.so is not on this machine");
      }
    }
  }
}

}  // namespace plansearch::calibrate
