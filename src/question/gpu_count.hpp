// SPDX-License-Identifier: Apache-2.0
// How many accelerators a job may have, and several whole numbers in one word.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "plansearch/cluster.hpp"
#include "plansearch/error.hpp"
#include "plansearch/load_problem.hpp"

namespace plansearch {

/// Why a job cannot have this many accelerators of the cluster; nothing when it can. It may have
/// more than there are.
[[nodiscard]] std::optional<std::string> bad_gpu_count(const Cluster& cluster, std::int64_t gpus);

/// The sizes of the cluster, as a hint.
[[nodiscard]] std::string gpu_count_hint(const Cluster& cluster);

/// InputError at `where` unless the GPUs a plan takes are a number the machine can give, and the
/// question's.
void check_devices(const ResolvedQuestion& asked, int devices, const SourceLocation& where);

/// The remark on an answer about more accelerators than the cluster has; empty for no more.
[[nodiscard]] std::string beyond_machine(const Cluster& cluster, int gpus);

/// --gpus or --nodes; nothing when neither is given.
[[nodiscard]] std::optional<int> asked_gpus(const ProblemRequest& request, const Cluster& cluster);

/// The sizes of a list of --gpus or --nodes; empty when there is none.
[[nodiscard]] std::vector<int> asked_sizes(const ProblemRequest& request, const Cluster& cluster);

/// The same question about "8xH100" or "h100:8" as one about so many GPUs of h100; other names stay.
/// InputError where the question says another number.
[[nodiscard]] ProblemRequest with_own_size(ProblemRequest request);

/// Ascending, each once; a range is the powers of two in it. Otherwise what is wrong with the text.
[[nodiscard]] std::variant<std::vector<std::int64_t>, std::string> read_numbers(
    std::string_view text);

/// "1T", "300 B", "15e12": a count of up to 1e18, or what is wrong with the text.
[[nodiscard]] std::variant<double, std::string> read_large_count(std::string_view text);

}  // namespace plansearch
