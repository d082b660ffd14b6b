// SPDX-License-Identifier: Apache-2.0
// Computes: the posterior of the step times of plans, and of their risks of running out of memory, behind trials of
//         some; the trial of most value.
// Source: normal regression on shares of the step; the knowledge gradient for correlated beliefs
//         (Frazier, Powell, Dayanik 2009, algorithm 1); deviations by part as the errors of sweeps in
//         docs/tune.md have them; risks with one shared factor (Vasicek 2002).
// Assumes: to first order ln(step) moves by the error of each part times its share; errors of parts
//          are the same in all plans of one machine; beside them every plan has an error that plans
//          share the more, the fewer degrees they differ in. A trial that is far off has an error of
//          its own: it says less about others.
// Units: logarithms of seconds.
// Checked by: tests/unit/measure/tune/trial_choice_test.cpp (closed forms, sampled beliefs)
#include "measure/tune/trial_choice.hpp"

#include <Eigen/Cholesky>
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "base/statistics.hpp"
#include "evaluate/answer/site_population.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch {
namespace {

/// Deviations of parts other than messages, in their order (parts_of_step), and of messages.
constexpr std::array kDeviations{0.05, 0.075, 0.15, 0.25, 0.15};
constexpr double kExposed = 0.20;
/// Correlation of what degrees decide, for each degree that differs.
constexpr double kPerDegree = 0.5;
/// Share of the variance of errors of peak memory that all plans of a job have in common: sources of measured
/// peaks differ by as much (0.12) as the rows of one (0.10 to 0.15).
constexpr double kSharedRoom = 0.5;
/// The shared error of memory in deviations, as it is summed over.
constexpr int kSharedSteps = 121;
constexpr double kSharedStep = 0.1;
/// A plan of a larger risk is not worth a trial by its time alone; one that fails takes little of it.
constexpr double kHopeless = 0.9;
/// No risk is smaller, and no certainty larger: the error of memory has tails.
constexpr double kLeastRisk = 1e-6;

double square(double x) {
  return x * x;
}

/// Risk of a plan with so much room, given the shared error.
double risk_at(double room, int step) {
  const double shared = kSharedStep * (step - kSharedSteps / 2);
  return normal_below((std::sqrt(kSharedRoom) * shared - room) / std::sqrt(1.0 - kSharedRoom));
}

double density(double x) {
  return std::isfinite(x) ? std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::numbers::pi) : 0.0;
}

/// A plan whose mean moves by `slope` for each deviation of a trial's result.
struct Line {
  double mean;
  double slope;
};

/// The expected least of lines over a standard normal abscissa.
double expected_least(std::vector<Line> lines) {
  // The lower envelope, from the left: slopes fall.
  std::ranges::sort(lines, [](const Line& a, const Line& b) {
    return a.slope != b.slope ? a.slope > b.slope : a.mean < b.mean;
  });
  std::vector<Line> envelope;
  std::vector<double> from;  // where each begins to be least
  for (const Line& line : lines) {
    if (!envelope.empty() && envelope.back().slope == line.slope) continue;
    double begin = -std::numeric_limits<double>::infinity();
    while (!envelope.empty()) {
      begin = (line.mean - envelope.back().mean) / (envelope.back().slope - line.slope);
      if (begin > from.back()) break;
      envelope.pop_back();
      from.pop_back();
      begin = -std::numeric_limits<double>::infinity();
    }
    envelope.push_back(line);
    from.push_back(begin);
  }
  from.push_back(std::numeric_limits<double>::infinity());
  double sum = 0.0;
  for (std::size_t i = 0; i < envelope.size(); ++i) {
    sum += envelope[i].mean * (normal_below(from[i + 1]) - normal_below(from[i])) +
           envelope[i].slope * (density(from[i]) - density(from[i + 1]));
  }
  return sum;
}

}  // namespace

double part_deviation(std::size_t part) {
  return part < kDeviations.size() ? kDeviations[part] : kExposed;
}

TrialBeliefs::TrialBeliefs(const std::vector<TrialPlan>& plans, const TrialErrors& errors)
    : errors_(errors), covariance_(plans.size() * plans.size(), square(errors.level)) {
  for (const TrialPlan& plan : plans) {
    mean_.push_back(std::log(plan.step.total().value()));
    room_.push_back(deviations_with(std::clamp(plan.risk, kLeastRisk, 1.0 - kLeastRisk)));
    risk_.push_back(plan.risk);
  }
  for (int i = 0; i < kSharedSteps; ++i)
    shared_.push_back(density(kSharedStep * (i - kSharedSteps / 2)));
  for (std::size_t a = 0; a < plans.size(); ++a) {
    for (std::size_t b = 0; b < plans.size(); ++b) {
      const auto own = parts_of_step(plans[a].step);
      const auto other = parts_of_step(plans[b].step);
      for (std::size_t part = 0; part < own.size(); ++part) {
        covariance(a, b) += square(part_deviation(part)) * (own[part] / plans[a].step.total()) *
                            (other[part] / plans[b].step.total());
      }
      const auto apart = std::ranges::count_if(degree_table(), [&](const DegreeRow& row) {
        return row.get(plans[a].degrees) != row.get(plans[b].degrees);
      });
      covariance(a, b) += square(errors.of_degrees) * std::pow(kPerDegree, apart);
    }
    covariance(a, a) += square(errors.own);
  }
}

/// Takes a result in, of this variance, its noise included.
void TrialBeliefs::condition(std::size_t plan, double surprise, double variance) {
  std::vector<double> with(size());
  for (std::size_t i = 0; i < size(); ++i) with[i] = covariance(i, plan);
  for (std::size_t a = 0; a < size(); ++a) {
    mean_[a] += with[a] * surprise / variance;
    for (std::size_t b = 0; b < size(); ++b) covariance(a, b) -= with[a] * with[b] / variance;
  }
}

void TrialBeliefs::see(std::size_t plan, Seconds measured) {
  const double seen = std::log(measured.value());
  const double surprise = seen - mean_[plan];
  const double variance = covariance(plan, plan) + square(errors_.noise);
  condition(plan, surprise, std::max(variance, square(surprise / errors_.far_off)));
  mean_[plan] = seen;  // far off or not, its own step is known
  remember(plan, false);
  for (std::size_t i = 0; i < size(); ++i) covariance(i, plan) = covariance(plan, i) = 0.0;
}

void TrialBeliefs::ran_out(std::size_t plan) {
  remember(plan, true);
}

void TrialBeliefs::remember(std::size_t plan, bool ran_out) {
  double all = 0.0;
  for (int i = 0; i < kSharedSteps; ++i) {
    const double risk = risk_at(room_[plan], i);
    double& weight = shared_[static_cast<std::size_t>(i)];
    weight *= std::max(ran_out ? risk : 1.0 - risk, kLeastRisk);
    all += weight;
  }
  for (double& weight : shared_) weight /= all;
  const double beyond = std::numeric_limits<double>::infinity();
  room_[plan] = ran_out ? -beyond : beyond;
  for (std::size_t other = 0; other < size(); ++other) {
    risk_[other] = room_[other] < 0.0 && std::isinf(room_[other]) ? 1.0 : 0.0;
    if (std::isinf(room_[other])) continue;  // a trial has told
    for (int i = 0; i < kSharedSteps; ++i)
      risk_[other] += shared_[static_cast<std::size_t>(i)] * risk_at(room_[other], i);
  }
}

void TrialBeliefs::await(std::size_t plan) {
  condition(plan, 0.0, covariance(plan, plan) + square(errors_.noise));
}

Seconds TrialBeliefs::expected(std::size_t plan) const {
  return Seconds(std::exp(mean_[plan]));
}

double TrialBeliefs::deviation(std::size_t plan) const {
  return std::sqrt(std::max(covariance(plan, plan), 0.0));
}

std::size_t TrialBeliefs::leader() const {
  std::size_t least = 0;
  for (std::size_t plan = 1; plan < size(); ++plan) {
    const bool runs = risk_[plan] < 1.0;
    if (runs && (risk_[least] == 1.0 || cost(plan) < cost(least))) least = plan;
  }
  return least;
}

double TrialBeliefs::is_best(std::size_t plan, double within) const {
  constexpr int kDraws = 4000;
  const auto n = static_cast<Eigen::Index>(size());
  Eigen::MatrixXd matrix =
      Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>(
          covariance_.data(), n, n);
  matrix.diagonal().array() += 1e-12;  // plans that were tried have none
  const Eigen::LDLT<Eigen::MatrixXd> factors(matrix);
  const Eigen::MatrixXd root = factors.matrixL();
  const Eigen::VectorXd scale = factors.vectorD().cwiseMax(0.0).cwiseSqrt();
  const Eigen::VectorXd mean = Eigen::Map<const Eigen::VectorXd>(mean_.data(), n);
  std::mt19937_64 random(1);
  const auto uniform = [&] { return (static_cast<double>(random() >> 11U) + 0.5) * 0x1p-53; };
  int best = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    Eigen::VectorXd normal(n);
    for (double& value : normal) {
      value = std::sqrt(-2.0 * std::log(uniform())) * std::cos(2.0 * std::numbers::pi * uniform());
    }
    const Eigen::VectorXd drawn =
        mean + factors.transpositionsP().transpose() * (root * scale.cwiseProduct(normal));
    double least = drawn[static_cast<Eigen::Index>(plan)];
    const double own = least;
    for (Eigen::Index other = 0; other < n; ++other) {
      const double risk = risk_[static_cast<std::size_t>(other)];
      if (risk == 0.0 || uniform() >= risk) least = std::min(least, drawn[other]);
    }
    best += own - least <= std::log1p(within) ? 1 : 0;
  }
  return static_cast<double>(best) / kDraws;
}

double TrialBeliefs::gain(std::size_t plan) const {
  const double deviation = std::sqrt(covariance(plan, plan) + square(errors_.noise));
  const double now = cost(leader());
  double others = now + 1.0;
  std::vector<Line> lines;
  for (std::size_t i = 0; i < size(); ++i) {
    if (risk_[i] == 1.0) continue;
    if (i != plan) others = std::min(others, cost(i));
    lines.push_back({i == plan ? mean_[i] : cost(i), covariance(i, plan) / deviation});
  }
  const double risk = risk_[plan];
  return std::max(now - (1.0 - risk) * expected_least(std::move(lines)) - risk * others, 0.0);
}

std::size_t TrialBeliefs::fastest() const {
  std::size_t least = leader();
  for (std::size_t plan = 0; plan < size(); ++plan)
    if (risk_[plan] <= kHopeless && mean_[plan] < mean_[least]) least = plan;
  return least;
}

std::vector<std::size_t> choose_trials(TrialBeliefs beliefs, std::vector<bool> open,
                                       std::size_t count) {
  std::vector<std::size_t> chosen;
  while (chosen.size() < count) {
    std::size_t best = beliefs.fastest();
    if (!open[best]) {
      double most = -1.0;
      for (std::size_t plan = 0; plan < open.size(); ++plan) {
        const double gain = open[plan] ? beliefs.gain(plan) : most;
        if (gain <= most) continue;
        most = gain;
        best = plan;
      }
    }
    if (!open[best]) break;
    chosen.push_back(best);
    open[best] = false;
    beliefs.await(best);
  }
  return chosen;
}

}  // namespace plansearch
