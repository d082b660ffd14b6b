// SPDX-License-Identifier: Apache-2.0
// A back end in several processes that measure the same point at once; the slowest counts.
#pragma once

#include <memory>

#include "calibrate/backend.hpp"
#include "calibrate/processes/processes.hpp"

namespace plansearch::calibrate {

/// `own` measures on this process. What only one process cannot measure, none does.
[[nodiscard]] std::unique_ptr<Backend> together(std::shared_ptr<Processes> processes,
                                                std::unique_ptr<Backend> own);

}  // namespace plansearch::calibrate
