// SPDX-License-Identifier: Apache-2.0
// Which order a pipeline runs in.
#pragma once

#include <cstdint>
#include <string_view>

namespace plansearch {

enum class ScheduleKind : std::uint8_t { GPipe, OneFOneB, Interleaved };
[[nodiscard]] std::string_view to_text(ScheduleKind value);

}  // namespace plansearch
