// SPDX-License-Identifier: Apache-2.0
// Orders as files of torch.distributed.pipelining: a row per rank, a cell per action, such as 2F0,
// 2I0, 2W0, 2B0 (stage, action, micro-batch) and (0F3;7B1)OVERLAP_F_B.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "plansearch/degree_table.hpp"
#include "plansearch/schedule_id.hpp"
#include "schedule/order/compute_order.hpp"

namespace plansearch::io {

/// The word after the two pieces of an overlapped cell.
inline constexpr std::string_view kOverlapWord = "OVERLAP_F_B";

/// Compute actions, or those with the sends and receives that the runtime adds. Messages follow
/// from the order; where a file lists them they must be the ones that are needed, at both ends,
/// after what makes them and before what uses them. Stages that share no micro-batch belong to
/// different replicas of the network. InputError at the line and column of what is wrong, for
/// pieces that are missing and for orders that wait for themselves.
[[nodiscard]] ComputeOrder read_schedule(const std::filesystem::path& path);
[[nodiscard]] ComputeOrder parse_schedule(std::string_view text, const std::string& file_name);

/// A schedule of the table, or the order in a file: a word that ends in .csv or holds a slash.
[[nodiscard]] std::optional<ScheduleId> find_or_read_schedule(std::string_view word);
/// The same as parse_value; a schedule may be a file.
[[nodiscard]] std::optional<int> parse_degree(Degree degree, std::string_view text);

/// Compute actions only, or (lowered) with every send after the piece that makes its message and
/// every receive where the runtime places it. Reading either back gives the same order.
[[nodiscard]] std::string to_schedule_csv(const ComputeOrder& order);
[[nodiscard]] std::string to_lowered_csv(const ComputeOrder& order);

}  // namespace plansearch::io
