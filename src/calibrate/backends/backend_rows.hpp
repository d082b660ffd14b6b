// SPDX-License-Identifier: Apache-2.0
// The functions of the rows of `backends()`.
#pragma once

#include <memory>

#include "calibrate/backend.hpp"
#include "calibrate/processes/processes.hpp"

namespace plansearch::calibrate {

[[nodiscard]] std::unique_ptr<Backend> make_cpu(const BackendOptions& options,
                                                const ShippedData& data);
[[nodiscard]] std::unique_ptr<Backend> make_cuda(const BackendOptions& options,
                                                 const ShippedData& data);
[[nodiscard]] std::unique_ptr<Backend> make_synthetic(const BackendOptions& options,
                                                      const ShippedData& data);
[[nodiscard]] std::unique_ptr<Backend> make_replay(const BackendOptions& options,
                                                   const ShippedData& data);

/// `own` measures on this process. What only one process cannot measure, none does.
[[nodiscard]] std::unique_ptr<Backend> together(std::shared_ptr<Processes> processes,
                                                std::unique_ptr<Backend> own);

}  // namespace plansearch::calibrate
