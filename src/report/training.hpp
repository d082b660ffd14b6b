// SPDX-License-Identifier: Apache-2.0
// The cost of training on a number of tokens: steps, days, GPU-hours, energy, price.
#pragma once

#include <optional>
#include <string>

#include "plansearch/report.hpp"
#include "report/columns.hpp"

namespace plansearch {

struct TrainingCost {
  double steps = 0.0;  ///< whole ones
  Seconds time;
  Seconds p10, p90;
  Seconds gpu_time;                    ///< summed over accelerators
  std::optional<double> energy_joule;  ///< of the accelerators at their rated power
  std::optional<double> price_usd;
};

/// The cost for the tokens of the question; nothing where it names none.
[[nodiscard]] std::optional<TrainingCost> training_cost(const QuestionReport& question,
                                                        const PlanReport& plan);

/// Keys with base units, unknown is null; in tables time, GPU-hours, energy, price: "12.3 days",
/// "1.23 M", "4.56 GWh", "$ 1.23 M", "-" for what is unknown.
[[nodiscard]] const Columns<TrainingCost>& training_columns();
[[nodiscard]] Cell gpu_hours_cell(Seconds gpu_time);

/// One line: how many steps, and what energy and price rest on; empty without tokens.
[[nodiscard]] std::string training_line(const QuestionReport& question);

}  // namespace plansearch
