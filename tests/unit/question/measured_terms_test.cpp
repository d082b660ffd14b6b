// SPDX-License-Identifier: Apache-2.0
// Parts of a step: they add up to the prediction, and a profile of a fault finds it.
#include "answer/diagnose.hpp"

#include <doctest/doctest.h>

#include "answer/make_report.hpp"
#include "unit/question/llama_on_sixteen.hpp"

namespace plansearch::measured_terms_test {
namespace {

PlanRequest question(const std::string& overlap, Recompute recompute) {
  PlanRequest asked = test::llama_on_sixteen();
  asked.request.degrees.pin(Degree::Recompute, static_cast<int>(recompute));
  if (!overlap.empty()) asked.request.overlap = overlap;
  return asked;
}

struct Predicted {
  StepTerms terms;
  PlanReport plan;
};

Predicted predicted(const std::string& overlap = {}, Recompute recompute = Recompute::None) {
  const ResolvedPlan given = resolve_plan(question(overlap, recompute));
  const SearchReport report = make_prediction(given);
  const PlanReport& plan = report.plans.front();
  return {predicted_terms(*given.problem.network, plan), plan};
}

/// A profile of so many steps that took just what was predicted.
io::StepProfile profile_of(const StepTerms& terms, double steps) {
  io::StepProfile profile;
  for (std::size_t i = 0; i < io::kProfileTerms; ++i) {
    profile.terms[i] = {terms.kernels[i] * steps, steps};
  }
  profile.exposed = terms.exposed * steps;
  profile.idle = terms.idle * steps;
  return profile;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("kernels, exposed messages, idle time and the site add up to the step") {
    const Predicted found = predicted();
    Seconds sum = found.terms.exposed + found.terms.idle + found.terms.site;
    for (std::size_t i = 0; i < io::kProfileTerms; ++i) {
      if (!io::is_message(static_cast<io::ProfileTerm>(i))) sum += found.terms.kernels[i];
    }
    CHECK(sum.value() == doctest::Approx(found.plan.estimate.step.total().value()));
    const auto at = [&](io::ProfileTerm term) {
      return found.terms.kernels[static_cast<std::size_t>(term)];
    };
    CHECK(at(io::ProfileTerm::Product) > at(io::ProfileTerm::Attention));
    CHECK(at(io::ProfileTerm::Attention) > Seconds(0));
    CHECK(at(io::ProfileTerm::AllGather) > Seconds(0));
    CHECK(at(io::ProfileTerm::ReduceScatter) > Seconds(0));
  }

  TEST_CASE("recomputed kernels are kernels of the step") {
    const StepTerms once = predicted().terms;
    const Predicted again = predicted({}, Recompute::Full);
    const auto products = static_cast<std::size_t>(io::ProfileTerm::Product);
    // A third of the products of layers runs again; logits do not.
    const double ratio = again.terms.kernels[products] / once.kernels[products];
    CHECK(ratio > 1.25);
    CHECK(ratio < 1.0 + 1.0 / 3.0);
    Seconds sum = again.terms.exposed + again.terms.idle + again.terms.site;
    for (std::size_t i = 0; i < io::kProfileTerms; ++i) {
      if (!io::is_message(static_cast<io::ProfileTerm>(i))) sum += again.terms.kernels[i];
    }
    CHECK(sum.value() == doctest::Approx(again.plan.estimate.step.total().value()));
  }

  TEST_CASE("a profile is most likely under the plan that it is of") {
    const Predicted usual = predicted();
    const Predicted exposed = predicted("tensor=0");
    const io::StepProfile own = profile_of(exposed.terms, 3.0);
    CHECK(density_of_terms(exposed.terms, own, 3.0, 0.2) >
          5.0 * density_of_terms(usual.terms, own, 3.0, 0.2));
    const io::StepProfile normal = profile_of(usual.terms, 1.0);
    CHECK(density_of_terms(usual.terms, normal, 1.0, 0.2) >
          5.0 * density_of_terms(exposed.terms, normal, 1.0, 0.2));
  }

  TEST_CASE("rows are of one step, and measured where the profile has it") {
    const Predicted found = predicted();
    io::StepProfile measured = profile_of(found.terms, 4.0);
    measured.idle.reset();
    for (const TermReport& row : terms_beside(found.terms, measured, 4.0)) {
      const bool known = row.term != "nothing runs" && row.term != "further time of the site";
      CHECK(row.measured.has_value() == known);
      if (known) CHECK(row.measured->value() == doctest::Approx(row.predicted.value()));
    }
  }

  TEST_CASE("steps: the slowest rank of each, quantiles, and who is slow") {
    // Steps of 1, 1, 1 and 3 s on rank 0; rank 1 takes 1.2 times as long.
    std::vector<io::RankStep> steps;
    for (const auto& [step, time] : {std::pair{1, 1.0}, {2, 1.0}, {3, 1.0}, {4, 3.0}}) {
      steps.push_back({step, 0, Seconds(time)});
      steps.push_back({step, 1, Seconds(1.2 * time)});
    }
    const StepTimes times = step_times(steps);
    CHECK(times.steps == 4);
    CHECK(times.median.value() == doctest::Approx(1.2));
    CHECK(times.slow_share == doctest::Approx(0.25));
    CHECK(times.slowest_rank == 1);
    CHECK(times.slowest_over_median == doctest::Approx(1.2 / 1.1));
  }
}

}  // namespace plansearch::measured_terms_test
