// SPDX-License-Identifier: Apache-2.0
#include "report/training.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/plan_cells.hpp"

namespace plansearch {
namespace {

constexpr double kHour = 3600.0;

double steps_of(const QuestionReport& question) {
  const double per_step =
      static_cast<double>(question.global_batch) * static_cast<double>(question.seq_len);
  return std::ceil(*question.tokens / per_step);
}

}  // namespace

std::optional<TrainingCost> training_cost(const QuestionReport& question, const PlanReport& plan) {
  if (!question.tokens) return std::nullopt;
  TrainingCost cost;
  cost.steps = steps_of(question);
  cost.time = plan.estimate.step.total() * cost.steps;
  cost.p10 = plan.p10 * cost.steps;
  cost.p90 = plan.p90 * cost.steps;
  cost.gpu_time = cost.time * static_cast<double>(question.gpus);
  if (question.gpu_power_watt) cost.energy_joule = cost.gpu_time.value() * *question.gpu_power_watt;
  if (question.gpu_price_usd_per_hour) {
    cost.price_usd = cost.gpu_time.value() / kHour * *question.gpu_price_usd_per_hour;
  }
  return cost;
}

const Columns<TrainingCost>& training_columns() {
  static const Columns<TrainingCost> kColumns{
      {"steps", &TrainingCost::steps},
      {"time_s", &TrainingCost::time, {"time"}},
      {"time_p10_s", &TrainingCost::p10},
      {"time_p90_s", &TrainingCost::p90},
      {"gpu_s", &TrainingCost::gpu_time, {"GPU-hours", Align::Right, 1}, gpu_hours_cell},
      {"energy_j", &TrainingCost::energy_joule, {"energy", Align::Right, 4}, energy_cell},
      {"price_usd", &TrainingCost::price_usd, {"price", Align::Right, 1}, price_cell}};
  return kColumns;
}

Cell gpu_hours_cell(Seconds gpu_time) {
  return count_cell(gpu_time.value() / kHour);
}

std::string training_line(const QuestionReport& question) {
  if (!question.tokens) return {};
  std::string text = fmt::format("{} tokens: {} steps of {} tokens", count_text(*question.tokens),
                                 grouped(static_cast<std::int64_t>(steps_of(question))),
                                 grouped(question.global_batch * question.seq_len));
  text +=
      question.gpu_power_watt
          ? fmt::format("; energy: the accelerators at {} W, without hosts, network and cooling",
                        *question.gpu_power_watt)
          : "; energy: the profile has no power";
  if (!question.gpu_price_usd_per_hour) {
    return text + "; price: the profile has none (--set 'price=2.5 $/h')\n";
  }
  const bool set = std::ranges::any_of(question.settings, [](const SettingReport& setting) {
    return setting.key == "set" && setting.value.find("price") != std::string::npos;
  });
  return text + fmt::format("; price: {} $/h per GPU, {}\n", *question.gpu_price_usd_per_hour,
                            set ? "as set" : "from the profile");
}

}  // namespace plansearch
