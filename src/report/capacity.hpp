// SPDX-License-Identifier: Apache-2.0
// How many accelerators, of which machine, for how long, at what cost.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/comparison.hpp"

namespace plansearch {

/// Limits of a job, in base units. Absent: none.
struct CapacityLimits {
  std::optional<double> deadline, step_time, gpu_hours, node_hours, energy_joule, price_usd;
};

/// A size of a machine with its best plan, and the job from its first step to its last.
struct CapacityRow {
  ComparedRow plan;  ///< with its goodput, where it has one
  int accelerators_per_node = 1;
  Seconds wall, p10, p90;  ///< failures and checkpoints included
  double gpu_hours = 0.0;
  /// Energy of the accelerators and their hosts, times the power usage effectiveness.
  std::optional<double> energy_joule;
  std::optional<double> price_usd;
  double efficiency = 1.0;  ///< work per GPU-hour over that of the machine's best size
  std::string beyond;       ///< the first limit that it breaks, in words; empty: none
  std::optional<double>
      chance{};  ///< of keeping all limits; absent: none, or tokens are solved for
  /// Tokens that it trains on within the limits, and 80 % of outcomes; absent: without limits.
  std::optional<double> affordable_tokens, affordable_p10{}, affordable_p90{};

  [[nodiscard]] bool runs() const { return plan.plan.has_value(); }
};

using CapacityMeasure = std::optional<double> (*)(const CapacityRow& row);

/// A limit: its key in JSON, its name, what a row takes of it, how it is said.
struct CapacityLimit {
  std::string_view key;
  std::string_view what;
  std::optional<double> CapacityLimits::*limit;
  CapacityMeasure taken;
  std::string (*text)(double limit);
};
[[nodiscard]] std::span<const CapacityLimit> capacity_limits();

struct CapacityReport {
  std::vector<CapacityRow> rows;  ///< at least one
  CapacityLimits limits;
  Reliability reliability;
  double host_power = 0.0;             ///< watt of a node beside its accelerators
  double pue = 1.0;                    ///< power usage effectiveness
  bool own_price = false;              ///< prices were given, not those of profiles
  bool all_sizes = false;              ///< tables show every row
  bool solved = false;                 ///< rows train on as many tokens as the limits allow
  double tokens_per_parameter = 20.0;  ///< of a model that fits the compute
  std::vector<std::string> evidence, notes;

  /// The first of the rows within all limits, or of all that run, with the least of what `measure`
  /// says; none where there is no such row, or nothing is known of any.
  [[nodiscard]] const CapacityRow* least(CapacityMeasure measure, bool within = true) const;
  /// The row that trains on most tokens within the limits; of equals the soonest.
  [[nodiscard]] const CapacityRow* most_affordable() const;
};

/// The failures, checkpoints and spares of a row, in a sentence.
[[nodiscard]] std::string goodput_line(const CapacityRow& row);
[[nodiscard]] nlohmann::ordered_json goodput_json(const Goodput& goodput);
[[nodiscard]] nlohmann::ordered_json reliability_json(const Reliability& reliability);

/// "1,024 x dgx-h100"
[[nodiscard]] std::string size_text(const CapacityRow& row);
/// "65.7 days"
[[nodiscard]] std::string duration_text(Seconds time);

/// The same as a page for a browser.
[[nodiscard]] std::string capacity_page(const CapacityReport& report);

[[nodiscard]] std::string render_capacity(const CapacityReport& report, Format format,
                                          int columns = 0);

}  // namespace plansearch
