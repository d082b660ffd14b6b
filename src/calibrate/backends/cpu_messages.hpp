// SPDX-License-Identifier: Apache-2.0
// Messages between processes on processors, by MPI.
#pragma once

#include <memory>

#include "calibrate/backend.hpp"
#include "calibrate/backends/cpu_buffer.hpp"
#include "calibrate/processes/mpi.hpp"

namespace plansearch::calibrate {

/// Throws Unmeasurable for a collective that is not known.
[[nodiscard]] std::unique_ptr<Trial> mpi_message(MpiProcesses& processes, const Point& point,
                                                 CpuBuffer& read, CpuBuffer& written);

}  // namespace plansearch::calibrate
