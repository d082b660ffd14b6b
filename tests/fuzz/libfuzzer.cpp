// SPDX-License-Identifier: Apache-2.0
// One target, PLANSEARCH_FUZZ_TARGET, for libFuzzer.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const plansearch::fuzz::Target* const found = [] {
    for (const plansearch::fuzz::Target& target : plansearch::fuzz::targets()) {
      if (target.name == PLANSEARCH_FUZZ_TARGET) return &target;
    }
    std::abort();
  }();
  plansearch::fuzz::attempt(*found, {reinterpret_cast<const char*>(data), size});
  return 0;
}
