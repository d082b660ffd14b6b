// SPDX-License-Identifier: Apache-2.0
// Budgets: how many accelerators train a model on so many tokens, by when, for how much.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "answer/search_session.hpp"
#include "report/capacity.hpp"

namespace plansearch {

/// Budgets and costs of the question, as typed; empty: not given.
struct CapacityQuestion {
  std::string deadline;   ///< "60d"
  std::string step_time;  ///< "20s"
  std::string budget;     ///< "20000 node-hours", "2M GPU-hours", "5 M$", "3 GWh"
  std::string mtbf;       ///< of one accelerator
  std::string restart;
  std::string checkpoint_interval;
  std::string storage;  ///< of one node
  std::vector<double>
      prices;  ///< $ an hour of an accelerator, of all machines or of each; none: of the profile
  bool all_sizes = false;   ///< in tables, not only those that the limits choose
  double host_power = 0.0;  ///< watt of a node beside its accelerators
  double pue = 1.0;
  double tokens_per_parameter = 20.0;
};

/// InputError for a deadline or a budget that cannot be read, each with what it may be.
[[nodiscard]] CapacityLimits read_limits(const CapacityQuestion& question);

/// The best plan on every size of every machine (`hardware`: "a,b:512"; sizes: --gpus, --nodes,
/// else powers of two of whole nodes), with what its job takes. Without tokens every size trains on
/// as many as the limits allow; InputError where there are neither.
[[nodiscard]] CapacityReport plan_capacity(const ProblemRequest& request,
                                           const CapacityQuestion& question,
                                           SearchSession& session);

/// Why no row is within the limits and what would be, in sentences; empty where one is.
[[nodiscard]] std::string unmet(const CapacityReport& report);

}  // namespace plansearch
