// SPDX-License-Identifier: Apache-2.0
#include "python/question.hpp"

#include <fmt/format.h>

#include "answer/unstated.hpp"
#include "base/names.hpp"
#include "cli/in_process.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch::python {
namespace {

ProblemRequest read_request(std::vector<std::string> words) {
  words.insert(words.begin(), "predict");
  cli::Caller caller;
  return cli::parse_words(words, caller);
}

Degree degree_of(const std::string& key) {
  if (key == kTensorAlias.key) return kTensorAlias.degree;
  std::vector<std::string> keys{std::string(kTensorAlias.key)};
  for (const DegreeRow& row : degree_table()) {
    if (key == row.key) return row.degree;
    keys.emplace_back(row.key);
  }
  throw InputError({}, fmt::format("{} is not a degree", key),
                   fmt::format("settings belong to the question. {}", did_you_mean(key, keys)));
}

}  // namespace

Question::Question(const std::vector<std::string>& words)
    : request_(read_request(words)),
      files_(read_problem_files(request_)),
      priors_(switch_priors(shipped_data())) {}

std::string Question::predict(const SpelledDegrees& degrees) const {
  PlanRequest asked{request_, {}};
  for (const auto& [key, value] : degrees) {
    const Degree degree = degree_of(key);
    asked.request.degrees.pin(degree, read_degree_value(flag_of(key), value, degree));
  }
  const ResolvedPlan given = resolve_plan(asked, files_);
  if (given.inexpressible) throw InputError({}, *given.inexpressible);
  const PlanEvaluator evaluator(given.problem);
  return render_prediction(predict_as_asked(given, evaluator, priors_), Format::Json, 0);
}

}  // namespace plansearch::python
