// SPDX-License-Identifier: Apache-2.0
// The functions of the rows of `backends()`.
#pragma once

#include "calibrate/backend.hpp"

namespace plansearch::calibrate {

[[nodiscard]] std::unique_ptr<Backend> make_cpu(const BackendOptions& options,
                                                const ShippedData& data);
[[nodiscard]] std::unique_ptr<Backend> make_cuda(const BackendOptions& options,
                                                 const ShippedData& data);
[[nodiscard]] std::unique_ptr<Backend> make_synthetic(const BackendOptions& options,
                                                      const ShippedData& data);
[[nodiscard]] std::unique_ptr<Backend> make_replay(const BackendOptions& options,
                                                   const ShippedData& data);

}  // namespace plansearch::calibrate
