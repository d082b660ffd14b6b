// SPDX-License-Identifier: Apache-2.0
// Orders as files of torch.distributed.pipelining: a row per rank, a cell per action, such as 2F0,
// 2I0, 2W0, 2B0 (stage, action, micro-batch) and (0F3;7B1)OVERLAP_F_B.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "schedule/compute_order.hpp"

namespace plansearch::io {

/// What follows the two pieces of an overlapped cell.
inline constexpr std::string_view kOverlapWord = "OVERLAP_F_B";

/// Compute actions, or those with the sends and receives that the runtime adds. Messages follow
/// from the order; where a file lists them they must be the ones that are needed, at both ends,
/// after what makes them and before what uses them. Stages that share no micro-batch belong to
/// different replicas of the network. InputError at the line and column of what is wrong, for
/// pieces that are missing and for orders that wait for themselves.
[[nodiscard]] ComputeOrder read_schedule(const std::filesystem::path& path);
[[nodiscard]] ComputeOrder parse_schedule(std::string_view text, const std::string& file_name);

/// Makes the files in a list of schedules known by their paths (schedule/table.hpp). A word that no
/// schedule has is a file when it ends in .csv or holds a slash.
void take_schedule_files(std::string_view list);

/// Compute actions only, or with every send behind what makes its message and every receive where
/// the runtime puts it. What is read back is the same order.
[[nodiscard]] std::string to_schedule_csv(const ComputeOrder& order);
[[nodiscard]] std::string to_lowered_csv(const ComputeOrder& order);

}  // namespace plansearch::io
