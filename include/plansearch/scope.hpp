// SPDX-License-Identifier: Apache-2.0
// How often something happens.
#pragma once

#include <cstdint>
#include <string_view>

namespace plansearch {

enum class Scope : std::uint8_t {
  Use,         ///< every time the operator runs
  MicroBatch,  ///< once per micro-batch
  Step,        ///< once per optimizer step
};
[[nodiscard]] std::string_view to_text(Scope scope);

}  // namespace plansearch
