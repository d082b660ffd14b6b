// SPDX-License-Identifier: Apache-2.0
// Computes: what the parts of a step take over their predictions, from runs in which their shares differ.
// Source: the beliefs of trials (measure/tune): a step that is one part alone is a plan like any other, and
//         what is believed of it is the factor of the part.
// Assumes: runs of one site scatter as those of measured sites do; a run that is further off than one
//          deviation counts less; parts are alike unless factors of their own predict runs left out better.
// Units: logarithms of ratios inside, ratios outside.
// Checked by: tests/unit/measure/fit/fit_parts_test.cpp, tools/trial_replay.py --terms
#include <algorithm>
#include <cmath>

#include "base/ranges.hpp"
#include "evaluate/answer/site_population.hpp"
#include "measure/fit/fit_profile.hpp"
#include "measure/tune/trial_choice.hpp"

namespace plansearch {
namespace {

/// A share of a step below which a part is not reported.
constexpr double kSmallPart = 0.02;
/// Share of the deviation before any run: a part that is known no better is not separated.
constexpr double kSeparated = 0.7;
/// Some sites scatter so many times less than others.
constexpr double kSteady = 4.0;
/// Share of a step by which factors of parts have to predict a run left out better.
constexpr double kWorthwhile = 0.003;

double share_of(const FitRun& run, std::size_t part) {
  Seconds all;
  const auto parts = parts_of_step(run.step);
  for (const Seconds time : parts) all += time;
  return parts[part] / all;
}

/// A step of a second that is one part alone.
TrialPlan step_of(std::size_t part) {
  TrialPlan plan;
  part_of_step(plan.step, part) = Seconds(1);
  return plan;
}

/// An assumption about the runs of a site.
struct Assumed {
  bool alike = false;    ///< as if every step were kernels alone
  double scatter = 0.0;  ///< of runs, of the logarithm
};

/// Beliefs about the steps of runs, and behind them about those of single parts.
TrialBeliefs beliefs_behind(std::vector<FitRun> runs, const SitePopulation& population,
                            const Assumed& assumed) {
  const double middle = median(transformed(runs, &FitRun::log));
  std::ranges::stable_sort(runs, {}, [&](const FitRun& run) { return std::abs(run.log - middle); });
  std::vector<TrialPlan> plans;
  for (const FitRun& run : runs) {
    TrialPlan& plan = plans.emplace_back(TrialPlan{run.step, {}});
    plan.step.site = Seconds();
    if (assumed.alike) plan = step_of(0);
  }
  for (std::size_t part = 0; part < kStepParts; ++part)
    plans.push_back(step_of(assumed.alike ? 0 : part));
  TrialBeliefs beliefs(plans, {.level = typical_site(population).spread,
                               .of_degrees = 0.0,
                               .own = 0.0,
                               .noise = assumed.scatter,
                               .far_off = 1.0});
  for (std::size_t i = 0; i < runs.size(); ++i)
    beliefs.see(i, plans[i].step.total() * std::exp(runs[i].log - population.mean));
  return beliefs;
}

/// Factors of all parts, over their predictions at factor 1.
std::vector<double> factors_of(const TrialBeliefs& beliefs, const SitePopulation& population) {
  std::vector<double> factors;
  for (std::size_t plan = beliefs.size() - kStepParts; plan < beliefs.size(); ++plan)
    factors.push_back(beliefs.expected(plan).value() * std::exp(population.mean));
  return factors;
}

double predicted_by(const std::vector<double>& factors, const FitRun& run) {
  double sum = 0.0;
  for (std::size_t part = 0; part < factors.size(); ++part)
    sum += share_of(run, part) * factors[part];
  return sum;
}

/// Mean error of runs left out.
double error_left_out(const std::vector<FitRun>& runs, const SitePopulation& population,
                      const Assumed& assumed) {
  double sum = 0.0;
  for (std::size_t out = 0; out < runs.size(); ++out) {
    std::vector<FitRun> others = runs;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(out));
    const auto factors = factors_of(beliefs_behind(others, population, assumed), population);
    sum += std::abs(predicted_by(factors, runs[out]) / std::exp(runs[out].log) - 1.0);
  }
  return sum / static_cast<double>(runs.size());
}

}  // namespace

PartsFit fit_parts(const std::vector<FitRun>& runs, const SitePopulation& population,
                   double site_factor) {
  PartsFit fit;
  Assumed assumed;
  for (const double scatter : {population.within, population.within / kSteady}) {
    const double one = error_left_out(runs, population, {true, scatter});
    const double parts = error_left_out(runs, population, {false, scatter});
    const bool first = assumed.scatter == 0.0;
    fit.error_of_one = first ? one : std::min(one, fit.error_of_one);
    if (!first && parts + kWorthwhile >= fit.error) continue;
    fit.error = parts;
    assumed.scatter = scatter;
  }
  const TrialBeliefs beliefs = beliefs_behind(runs, population, assumed);
  const std::vector<double> factors = factors_of(beliefs, population);
  for (std::size_t part = 0; part < kStepParts; ++part) {
    PartFit one{.part = step_part(part), .least = 1.0, .factor = factors[part]};
    for (const FitRun& run : runs) {
      one.least = std::min(one.least, share_of(run, part));
      one.most = std::max(one.most, share_of(run, part));
    }
    if (one.most < kSmallPart) continue;
    one.deviation = beliefs.deviation(runs.size() + part);
    one.separated = one.deviation < kSeparated * part_deviation(part);
    fit.parts.push_back(one);
  }
  if (!(fit.error + kWorthwhile < fit.error_of_one)) return fit;
  for (const double factor : factors) fit.factors.push_back(factor / site_factor);
  return fit;
}

}  // namespace plansearch
