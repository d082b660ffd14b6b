// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backends/cuda_kernels.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "measure/calibrate/backend.hpp"
#include "measure/calibrate/backends/cuda_calls.hpp"
#include "measure/calibrate/backends/cuda_library.hpp"

namespace plansearch::calibrate::cuda_kernels_test {

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

TEST_SUITE("unit") {
  TEST_CASE("cuDNN takes the graphs of attention, in both directions and with shared keys") {
    for (const char* direction : {"forward", "backward"}) {
      for (const char* mask : {"causal", "full"}) {
        for (const char* kv_heads : {"16", "4"}) {
          const Point point{"attention",
                            {{"direction", direction},
                             {"mask", mask},
                             {"dtype", "bf16"},
                             {"batch", "2"},
                             {"seq_len", "1024"},
                             {"heads", "16"},
                             {"kv_heads", kv_heads},
                             {"head_dim", "128"}}};
          CAPTURE(point.key());
          try {
            check_attention_graph(point);
          } catch (const Unmeasurable& missing) {
            const bool absent = missing.reason.find("not on this machine") != std::string::npos ||
                                missing.reason.find("without cuDNN") != std::string::npos;
            CHECK_MESSAGE(absent, missing.reason);
          }
        }
      }
    }
    const Point wide{"attention", {{"dtype", "fp32"}, {"direction", "forward"}}};
    CHECK_THROWS_AS(check_attention_graph(wide), Unmeasurable);
  }

  TEST_CASE("formats follow the generation") {
    const auto has = [](int capability, std::string_view format) {
      const auto all = cuda_formats(capability);
      return std::find(all.begin(), all.end(), format) != all.end();
    };
    CHECK(has(80, "bf16"));
    CHECK_FALSE(has(80, "fp8"));
    CHECK(has(89, "fp8"));
    CHECK(has(90, "fp8_block"));
    CHECK_FALSE(has(100, "fp8_block"));
    CHECK(has(100, "mxfp8"));
    CHECK(has(100, "nvfp4"));
    CHECK_FALSE(has(90, "nvfp4"));
  }
}

}  // namespace plansearch::calibrate::cuda_kernels_test
