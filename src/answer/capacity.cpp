// SPDX-License-Identifier: Apache-2.0
#include "answer/capacity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "answer/compare_questions.hpp"
#include "answer/search_answer.hpp"
#include "base/names.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "evaluate/answer/interval.hpp"
#include "evaluate/answer/open_switches.hpp"
#include "io/hardware/profile_reader.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/gpu_count.hpp"
#include "report/plan_cells.hpp"
#include "report/training.hpp"

namespace plansearch {
namespace {

constexpr double kHour = 3600.0;

constexpr const char* kBudgets =
    "a number with node-hours, GPU-hours, $ or kWh, MWh, GWh: \"20000 node-hours\", \"5M$\"";

/// A quantity, or InputError that names the option.
template <typename Quantity>
Quantity read_quantity(std::string_view option, const std::string& text, const char* such_as) {
  const auto value = parse_quantity<Quantity>(text);
  if (value && *value > Quantity(0)) return *value;
  throw InputError({}, fmt::format("{}: '{}' is not above zero with a unit", option, text),
                   fmt::format("such as {}", such_as));
}

struct Budget {
  std::string_view unit;
  std::optional<double> CapacityLimits::*limit;
  double factor;
};
constexpr Budget kUnits[] = {
    {"node-hours", &CapacityLimits::node_hours, 1.0},
    {"gpu-hours", &CapacityLimits::gpu_hours, 1.0},
    {"gwh", &CapacityLimits::energy_joule, 1e9 * kHour},
    {"mwh", &CapacityLimits::energy_joule, 1e6 * kHour},
    {"kwh", &CapacityLimits::energy_joule, 1e3 * kHour},
    {"usd", &CapacityLimits::price_usd, 1.0},
    {"$", &CapacityLimits::price_usd, 1.0},
};

void read_budget(const std::string& text, CapacityLimits& limits) {
  std::string words = canonical_name(text);
  const bool dollars_first = words.starts_with('$');
  if (dollars_first) words = words.substr(1) + "$";
  for (const Budget& budget : kUnits) {
    if (!words.ends_with(budget.unit)) continue;
    std::string number = text.substr(dollars_first ? 1 : 0, words.size() - budget.unit.size());
    std::erase(number, ' ');
    std::erase(number, ',');
    const auto count = read_large_count(number);
    if (!std::holds_alternative<double>(count)) break;
    limits.*budget.limit = std::get<double>(count) * budget.factor;
    return;
  }
  throw InputError({}, fmt::format("--budget: '{}' is not a budget", text), kBudgets);
}

/// The ladder of a search; that of the machine where the question says more than one thing.
std::vector<int> sizes_of(const ProblemRequest& request) {
  const ProblemFiles files = read_problem_files(request);
  try {
    return ladder_sizes(resolve_question(request, files));
  } catch (const InputError&) {  // is said of its rows
    return ladder_sizes(*files.cluster);
  }
}

/// Machines that have no size of their own have the sizes asked for, else those of a ladder.
std::vector<ProblemRequest> questions_of(const ProblemRequest& request) {
  std::vector<ProblemRequest> questions;
  for (ProblemRequest& one : machine_questions(request)) {
    if (!is_sized(one)) one.gpu_list = sizes_of(one);
    for (ProblemRequest& question : separate_questions(one)) {
      questions.push_back(std::move(question));
    }
  }
  return questions;
}

/// How far beyond a limit, in words: "3 % over the deadline", "2.1x the deadline".
std::string over(std::string_view what, double value, double limit) {
  constexpr double kTwice = 1.995, kFew = 100.0, kLeast = 0.001;
  const double times = value / limit;
  if (times <= 1.0) return {};
  if (times < kTwice)
    return fmt::format("{} over the {}", share_text(std::max(times - 1.0, kLeast)), what);
  return times < kFew ? fmt::format("{:.2g}x the {}", times, what)
                      : fmt::format("{}x the {}", grouped(std::llround(times)), what);
}

/// The chance of an outcome below `share` times its median; p10 and p90 hold eight of ten.
double chance_of(double share, Seconds p10, Seconds median, Seconds p90) {
  return share_below(
      {.below = std::log(median / p10) / kNormalP90, .above = std::log(p90 / median) / kNormalP90},
      std::log(share));
}

void judge(const CapacityLimits& limits, CapacityRow& row) {
  double share = 1e30;
  bool limited = false;
  for (const CapacityLimit& one : capacity_limits()) {
    const auto limit = limits.*one.limit;
    if (!limit || one.limit == &CapacityLimits::step_time) continue;
    const auto value = one.taken(row);
    if (!value) {
      row.beyond = fmt::format("the profile has no {}", one.what);
      return;
    }
    limited = true;
    share = std::min(share, *limit / *value);
    if (row.beyond.empty()) row.beyond = over(one.what, *value, *limit);
  }
  if (limited) row.chance = chance_of(share, row.p10, row.wall, row.p90);
  // Fewer tokens do not make a step shorter.
  const PlanReport& plan = *row.plan.plan;
  const Seconds step = plan.estimate.step.total();
  if (limits.step_time) {
    const double chance = chance_of(Seconds(*limits.step_time) / step, plan.p10, step, plan.p90);
    row.chance = std::min(row.chance.value_or(1.0), chance);
    if (step.value() > *limits.step_time) {
      if (row.beyond.empty()) row.beyond = over("step time", step.value(), *limits.step_time);
      return;
    }
  }
  if (!limited) return;
  row.affordable_tokens = *row.plan.question.tokens * share;
  row.affordable_p10 = *row.affordable_tokens * (row.wall / row.p90);
  row.affordable_p90 = *row.affordable_tokens * (row.wall / row.p10);
}

/// From the time that the steps take to that of the job.
void add_job(const CapacityReport& report, CapacityRow& row) {
  const auto cost = training_cost(row.plan.question, *row.plan.plan);
  const Goodput& goodput = *row.plan.goodput;
  row.wall = cost->time / goodput.share;
  // Independent, log-normal: distances of quantiles add in quadrature.
  const double faster =
      std::hypot(std::log(cost->time / cost->p10), std::log(goodput.p90 / goodput.share));
  const double slower =
      std::hypot(std::log(cost->p90 / cost->time), std::log(goodput.share / goodput.p10));
  row.p10 = row.wall * std::exp(-faster);
  row.p90 = row.wall * std::exp(slower);
  const double longer = row.wall / cost->time;
  row.gpu_hours = cost->gpu_time.value() * longer / kHour;
  if (cost->energy_joule) {
    const double nodes_s = row.gpu_hours * kHour / row.accelerators_per_node;
    row.energy_joule = (*cost->energy_joule * longer + nodes_s * report.host_power) * report.pue;
  }
  if (cost->price_usd) row.price_usd = *cost->price_usd * longer;
  judge(report.limits, row);
}

void fill_efficiency(std::vector<CapacityRow>& rows) {
  std::map<std::string, double> fewest;  // GPU-hours, by machine
  for (const CapacityRow& row : rows) {
    if (!row.runs()) continue;
    const auto [known, fresh] = fewest.emplace(row.plan.question.hardware, row.gpu_hours);
    known->second = std::min(known->second, row.gpu_hours);
  }
  for (CapacityRow& row : rows) {
    if (row.runs()) row.efficiency = fewest.at(row.plan.question.hardware) / row.gpu_hours;
  }
}

Reliability reliability_for(const CapacityQuestion& question) {
  Reliability reliability =
      io::read_reliability(shipped_data().directory() / "validation" / "reliability.yaml");
  if (!question.mtbf.empty()) {
    reliability.gpu_mtbf = read_quantity<Seconds>("--mtbf", question.mtbf, "50000h");
    reliability.spread = 0.0;
    reliability.records.clear();
  }
  if (!question.restart.empty()) {
    reliability.restart = read_quantity<Seconds>("--restart", question.restart, "15min");
    for (ReliabilityRecord& record : reliability.records) record.restart.reset();
  }
  if (!question.checkpoint_interval.empty()) {
    reliability.interval =
        read_quantity<Seconds>("--checkpoint-interval", question.checkpoint_interval, "30min");
  }
  if (!question.storage.empty()) {
    reliability.storage_per_node =
        read_quantity<Bandwidth>("--storage", question.storage, "\"1 GB/s\"");
    reliability.storage_of_site = Bandwidth(1e30);
  }
  return reliability;
}

/// No size has a step as short as asked for.
std::string unmet_step(const CapacityReport& report) {
  const auto step_of = [](const CapacityRow& row) {
    return std::optional(row.plan.plan->estimate.step.total().value());
  };
  const CapacityRow* fastest = report.least(step_of, false);
  if (fastest == nullptr) return "no plan fits on any of these machines";
  return fmt::format("no size is within the limits; the fastest step: {} on {}, {}",
                     to_text(Seconds(*step_of(*fastest))), size_text(*fastest), fastest->beyond);
}

}  // namespace

CapacityLimits read_limits(const CapacityQuestion& question) {
  CapacityLimits limits;
  if (!question.deadline.empty()) {
    // A number by itself counts days.
    const bool bare = parse_number(question.deadline).has_value();
    const std::string& text = bare ? question.deadline + "d" : question.deadline;
    limits.deadline = read_quantity<Seconds>("--deadline", text, "60d").value();
  }
  if (!question.step_time.empty()) {
    limits.step_time = read_quantity<Seconds>("--step-time", question.step_time, "20s").value();
  }
  if (!question.budget.empty()) read_budget(question.budget, limits);
  return limits;
}

namespace {

/// The job on the tokens that the limits allow: it ends where they end, whatever it has trained.
void solve(CapacityRow& row) {
  if (!row.affordable_tokens) return;
  const double share = *row.affordable_tokens / *row.plan.question.tokens;
  row.wall = row.p10 = row.p90 = row.wall * share;
  row.chance.reset();
  row.gpu_hours *= share;
  if (row.energy_joule) *row.energy_joule *= share;
  if (row.price_usd) *row.price_usd *= share;
  row.plan.question.tokens = row.affordable_tokens;
  row.beyond.clear();
}

/// Whether they limit how many tokens a size trains on.
bool has_limits(CapacityLimits limits) {
  limits.step_time.reset();
  return std::ranges::any_of(
      capacity_limits(), [&](const CapacityLimit& row) { return (limits.*row.limit).has_value(); });
}

/// The price of an accelerator of every question's machine.
std::vector<std::optional<double>> prices_of(const std::vector<ProblemRequest>& questions,
                                             const std::vector<double>& prices) {
  std::vector<std::string> machines;
  std::vector<std::optional<double>> found;
  for (const ProblemRequest& question : questions) {
    if (!contains(machines, question.hardware)) machines.push_back(question.hardware);
    const std::size_t machine = prices.size() == 1 ? 0 : machines.size() - 1;
    found.push_back(machine < prices.size() ? std::optional(prices[machine]) : std::nullopt);
  }
  if (prices.size() > 1 && prices.size() != machines.size()) {
    throw InputError(
        {}, fmt::format("--price: {} prices for {} machines", prices.size(), machines.size()),
        "give one for all of them, or one for each");
  }
  return found;
}

}  // namespace

CapacityReport plan_capacity(const ProblemRequest& request, const CapacityQuestion& question,
                             SearchSession& session) {
  CapacityReport report;
  report.limits = read_limits(question);
  report.solved = !request.tokens && has_limits(report.limits);
  if (!request.tokens && !report.solved) {
    throw InputError({}, "capacity: --tokens is missing",
                     "tokens to train on, such as 15.6T; or --budget or --deadline, for as many "
                     "as they allow");
  }
  ProblemRequest asked = request;
  if (report.solved) asked.tokens = "1T";
  report.own_price = !question.prices.empty();
  report.host_power = question.host_power;
  report.pue = question.pue;
  report.tokens_per_parameter = question.tokens_per_parameter;
  report.reliability = reliability_for(question);
  const std::vector<ProblemRequest> questions = questions_of(asked);
  const auto prices = prices_of(questions, question.prices);
  ComparisonReport compared = compare_questions(questions, session, &report.reliability);
  report.evidence = std::move(compared.evidence);
  report.notes = std::move(compared.notes);
  for (std::size_t i = 0; i < compared.rows.size(); ++i) {
    CapacityRow row;
    row.plan = std::move(compared.rows[i]);
    row.accelerators_per_node = row.plan.accelerators_per_node;
    if (prices[i]) row.plan.question.gpu_price_usd_per_hour = prices[i];
    if (row.runs()) add_job(report, row);
    report.rows.push_back(std::move(row));
  }
  // Sizes that the user did not name need not be shown.
  const bool sized = is_sized(request);
  if (!sized && std::ranges::any_of(report.rows, &CapacityRow::runs)) {
    std::erase_if(report.rows, [](const CapacityRow& row) { return !row.runs(); });
  }
  report.all_sizes = sized || question.all_sizes;
  fill_efficiency(report.rows);
  if (report.solved) std::ranges::for_each(report.rows, solve);
  return report;
}

std::string unmet(const CapacityReport& report) {
  const auto within = [](const CapacityRow& row) { return row.runs() && row.beyond.empty(); };
  if (std::ranges::any_of(report.rows, within)) return {};
  const CapacityRow* nearest = report.most_affordable();
  if (nearest == nullptr) return unmet_step(report);
  return fmt::format(
      "no size is within the limits; nearest: {}, {}; it takes {} and {} GPU-hours{}, or "
      "trains on {} tokens within them",
      size_text(*nearest), nearest->beyond, duration_text(nearest->wall),
      count_text(nearest->gpu_hours),
      nearest->price_usd ? fmt::format(" ($ {})", count_text(*nearest->price_usd)) : "",
      count_text(*nearest->affordable_tokens));
}

}  // namespace plansearch
