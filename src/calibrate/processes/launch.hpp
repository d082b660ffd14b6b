// SPDX-License-Identifier: Apache-2.0
// What launchers tell a process in its environment.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace plansearch::calibrate {

/// Where this process stands among those that were started with it, and where they meet.
struct Launch {
  std::string launcher;
  int rank = 0;
  int size = 1;
  int place_in_node = 0;
  int size_of_node = 1;
  std::string host{};  ///< of the first process
  int port = 0;        ///< on which the first process waits
  bool operator==(const Launch&) const = default;
};

/// Null for variables that are not set.
using Variables = std::function<const char*(const char*)>;

/// torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (one above
/// it, where the agent keeps that port itself). srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS,
/// SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_NODELIST, SLURM_JOB_ID.
/// PLANSEARCH_PORT names another port. Nothing: a process alone.
[[nodiscard]] std::optional<Launch> launch_of(const Variables& variable);

/// Of "gpu[003-010,12],login1" gpu003.
[[nodiscard]] std::string first_host(std::string_view list);

}  // namespace plansearch::calibrate
