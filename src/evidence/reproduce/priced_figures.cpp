// SPDX-License-Identifier: Apache-2.0
#include "evidence/reproduce/reproduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/names.hpp"
#include "base/parallel.hpp"
#include "evidence/reproduce/gpt_question.hpp"
#include "evidence/reproduce/grid_model.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/stop_token.hpp"
#include "question/degrees.hpp"
#include "question/resolve_plan.hpp"
#include "search/strategies/strategy.hpp"

namespace plansearch {
namespace {

/// The best plan of a question, or the one it gives.
struct PricedAnswer {
  std::unique_ptr<PlanEvaluator> evaluator;
  std::optional<PlanCandidate> best;

  [[nodiscard]] const Problem& problem() const { return evaluator->problem(); }
  [[nodiscard]] GptSizes sizes() const {
    const ModelDescription& model = *problem().model;
    return {model.layers, model.hidden, model.attention.heads, problem().seq_len,
            model.embedding.vocab};
  }
  /// Tensor degree of the largest stage.
  [[nodiscard]] int tensor() const {
    int most = best->plan.tensor();
    if (!best->written) return most;
    for (const Transform& transform : best->written->transforms) {
      most = std::max(most, transform.degrees.tensor());
    }
    return most;
  }
};

/// Between the questions of a range: each is one reading of the paper.
constexpr std::string_view kAlternative = "|";

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

/// Share of the step that nothing hides of the worst kind of message of at most 1 MB.
double worst_small_message(const PricedAnswer& answer) {
  constexpr Bytes kSmall(1e6);
  const PlanEvaluator& evaluator = *answer.evaluator;
  const auto workspace = PlanEvaluator::make_workspace();
  const PlanCandidate& best = *answer.best;
  double worst = 0.0;
  for (const PricedCommunication& line :
       plan_details(evaluator, best.plan, *workspace).communication) {
    if (line.bytes > kSmall) continue;
    worst = std::max(worst, line.exposed / best.estimate.step.total());
  }
  return worst;
}

/// Measures of an answer. `step`: of the best plan, at the site of the question.
struct Measure {
  std::string_view name;
  double (*of)(const PricedAnswer& answer, double step);
};
constexpr std::array kMeasures{
    Measure{"step", [](const PricedAnswer& /*answer*/, double step) { return step; }},
    Measure{"seconds a sequence",
            [](const PricedAnswer& answer, double step) {
              return step / static_cast<double>(answer.problem().global_batch);
            }},
    Measure{"percent of peak",
            [](const PricedAnswer& answer, double step) {
              const Problem& problem = answer.problem();
              return 100.0 * gpt_flops(answer.sizes(), problem.global_batch) / step / problem.gpus /
                     matmul_peak(problem).value();
            }},
    Measure{"Alpa's PFLOP/s",
            [](const PricedAnswer& answer, double step) {
              return alpa_flops(answer.sizes(), answer.problem().global_batch) / step / 1e15;
            }},
    Measure{"tensor", [](const PricedAnswer& answer, double) { return double(answer.tensor()); }},
    Measure{"out", [](const PricedAnswer& answer,
                      double) { return double(answer.best->plan.tensor_out); }},
    Measure{"in",
            [](const PricedAnswer& answer, double) { return double(answer.best->plan.tensor_in); }},
    Measure{"out x in",
            [](const PricedAnswer& answer, double) {
              return double(answer.best->plan.tensor_out) * answer.best->plan.tensor_in;
            }},
    Measure{"billion parameters",
            [](const PricedAnswer& answer, double) {
              return static_cast<double>(parameter_count(*answer.problem().network)) / 1e9;
            }},
    Measure{"peak GiB",
            [](const PricedAnswer& answer, double) {
              return answer.best->estimate.memory.total().value() / kGibibyte;
            }},
    Measure{"allocated GiB",  // by the framework's allocator, without the driver's context
            [](const PricedAnswer& answer, double) {
              const MemoryBreakdown& memory = answer.best->estimate.memory;
              return (memory.total() - memory.reserve).value() / kGibibyte;
            }},
    Measure{"MFU",
            [](const PricedAnswer& answer, double step) {
              const Problem& problem = answer.problem();
              const Flops flops = model_training_flops(*problem.network) *
                                  static_cast<double>(problem.global_batch);
              return flops.value() / step / problem.gpus / matmul_peak(problem).value() * 100.0;
            }},
    Measure{"small message",
            [](const PricedAnswer& answer, double) { return worst_small_message(answer); }},
};

/// A mistake in the line of that figure.
[[noreturn]] void fail(std::string_view id, const std::string& message) {
  throw InputError({}, fmt::format("validation/published, figure \"{}\": {}", id, message));
}

const Measure& measure_of(std::string_view id, const PublishedFigure& figure) {
  const auto* found = std::ranges::find_if(
      kMeasures, [&](const Measure& measure) { return measure.name == figure.measure; });
  if (found != kMeasures.end()) return *found;
  fail(id, fmt::format("\"{}\" is not a measure", figure.measure));
}

/// Flags, the plan file that says the rest, and constraints.
struct Question {
  ProblemRequest request;
  std::string plan;
  std::string constraints;
};

/// The problem with the flag or its value; empty where it was set.
std::string set_flag(std::string_view flag, const std::string& value, Question& asked) {
  ProblemRequest& request = asked.request;
  if (flag == "--space" || flag == "--plan" || flag == "--constraints") {
    (flag == "--space" ? request.space : flag == "--plan" ? asked.plan : asked.constraints) = value;
    return {};
  }
  for (const SettingRow& row : setting_table()) {
    if (flag_of(row) != flag) continue;
    std::string problem = setting_problem(row, value);
    if (problem.empty()) row.set(request, value);
    return problem;
  }
  for (const DegreeRow& row : degree_table()) {
    const bool alias = kTensorAlias.degree == row.degree && flag == flag_of(kTensorAlias.key);
    if (!alias && flag != flag_of(row.key)) continue;
    const auto number = parse_value(row.degree, value);
    if (!number) return fmt::format("'{}' is not {}", value, legal_text(row.degree));
    request.degrees.pin(row.degree, *number);
    return {};
  }
  return "no such flag";
}

Question read_question(std::string_view id, const std::string& question, const ShippedData& data) {
  const std::vector<std::string> words = split(question, " ");
  if (words.size() % 2 != 0) fail(id, "a flag of the question has no value");
  Question asked;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const std::string problem = set_flag(words[i], words[i + 1], asked);
    if (!problem.empty()) fail(id, fmt::format("{}: {}", words[i], problem));
  }
  for (std::string* file :
       {&asked.request.hardware, &asked.request.model, &asked.request.framework, &asked.plan}) {
    if (file->ends_with(".yaml")) *file = (data.directory() / *file).string();
  }
  return asked;
}

PricedAnswer answer_of_plan(const Question& asked) {
  const ResolvedPlan given = resolve_plan(
      with_constraints(complete_from_plan(asked.request, asked.plan), asked.constraints));
  PricedAnswer answer;
  answer.evaluator = std::make_unique<PlanEvaluator>(given.problem);
  answer.best = PlanCandidate{given.plan.transforms.front().degrees,
                              estimate_of(*answer.evaluator, given.plan),
                              std::make_shared<const ParallelPlan>(given.plan)};
  return answer;
}

std::optional<PlanCandidate> best_plan(const PlanEvaluator& evaluator,
                                       const ProblemRequest& request, int threads) {
  if (request.space.empty()) {
    const Problem& problem = evaluator.problem();
    const PlanDegrees plan = plan_from_degrees(request.degrees, problem, problem.gpus);
    const auto expanded = evaluator.expand(plan);
    const auto* made = std::get_if<ParallelPlan>(&expanded);
    if (made == nullptr || evaluator.legality(plan)) return std::nullopt;
    return PlanCandidate{plan, estimate_of(evaluator, *made), {}};
  }
  SearchOptions options;
  options.top = 1;
  options.threads = threads;
  options.front = false;
  options.recomputing = !request.degrees.has(Degree::Recompute);
  auto found = search(evaluator, request.space, {request.degrees, request.limits}, options);
  check_stop();
  auto* result = std::get_if<SearchResult>(&found);
  if (result == nullptr || result->ranked.empty()) return std::nullopt;
  if (!request.degrees.has(Degree::Recompute)) add_fewest_layers(evaluator, *result);
  return std::move(result->ranked.front());
}

PricedAnswer answer_of(const Question& asked, const StudyContext& context, int threads) {
  if (!asked.plan.empty() || !asked.constraints.empty()) return answer_of_plan(asked);
  const ProblemRequest& request = asked.request;
  PricedAnswer answer;
  answer.evaluator = std::make_unique<PlanEvaluator>(
      gpt_problem(request, find_gpt(request.model, context.data), context.data));
  answer.best = best_plan(*answer.evaluator, request, threads);
  return answer;
}

std::string spelled(const PricedAnswer& answer) {
  if (!answer.best) return "no plan";
  const PlanDegrees& plan = answer.best->plan;
  std::string text;
  for (const auto& [name, degree] :
       {std::pair{"x", plan.tensor_in}, std::pair{"y", plan.tensor_out},
        std::pair{"z", plan.tensor_depth}, std::pair{"data", plan.data},
        std::pair{"pp", plan.pipeline}, std::pair{"cp", plan.context},
        std::pair{"micro-batch ", plan.micro_batch}}) {
    if (degree > 1) text += fmt::format("{}{}{}", text.empty() ? "" : " ", name, degree);
  }
  return text;
}

Predicted predicted(const Measure& measure, const PricedAnswer& answer, const PricedAnswer* over) {
  if (!answer.best || (over != nullptr && !over->best)) return std::nullopt;
  const auto at = [&](bool tuned) {
    const auto value = [&](const PricedAnswer& one) {
      const double factor = tuned ? 1.0 : one.problem().site.factor;
      return measure.of(one, at_factor(one.best->estimate, factor).step.total().value());
    };
    return value(answer) / (over == nullptr ? 1.0 : value(*over));
  };
  constexpr double kSame = 1e-9;
  const double own = at(false);
  const double tuned = at(true);
  if (std::abs(own - tuned) <= kSame * std::abs(own)) return own;
  Predicted found(own, tuned);
  if (over != nullptr) return found;  // errors of the two steps share most of their causes
  const Estimate estimate = at_factor(answer.best->estimate, answer.problem().site.factor);
  const double step = estimate.step.total().value();
  const double fast = measure.of(answer, step * estimate.relative_p10);
  const double slow = measure.of(answer, step * estimate.relative_p90);
  found.p10 = std::min(fast, slow);
  found.p90 = std::max(fast, slow);
  return found;
}

}  // namespace

void add_priced(const StudyContext& context, Figures& figures) {
  std::vector<std::string> questions;
  std::vector<Question> requests;
  for (const std::string& id : figures.asked()) {
    for (std::string& question : split(figures.at(id).question, kAlternative)) {
      if (std::ranges::find(questions, question) != questions.end()) continue;
      requests.push_back(read_question(id, question, context.data));
      questions.push_back(std::move(question));
    }
  }
  std::vector<PricedAnswer> answers(questions.size());
  parallel_for(questions.size(), context.threads,
               [&](std::size_t i) { answers[i] = answer_of(requests[i], context, 1); });
  const auto answers_of = [&](std::string_view id) {
    std::vector<const PricedAnswer*> found;
    for (const std::string& question : split(figures.at(id).question, kAlternative)) {
      const auto place = std::ranges::find(questions, question);
      PLANSEARCH_CHECK(place != questions.end());
      found.push_back(&answers[static_cast<std::size_t>(place - questions.begin())]);
    }
    return found;
  };
  for (const std::string& id : figures.asked()) {
    const PublishedFigure& figure = figures.at(id);
    const std::vector<const PricedAnswer*> own = answers_of(id);
    std::vector<const PricedAnswer*> over(own.size(), nullptr);
    if (!figure.over.empty()) {  // setting by setting, or one for all
      const std::vector<const PricedAnswer*> found = answers_of(figure.over);
      for (std::size_t i = 0; i < own.size(); ++i)
        over[i] = found[found.size() == own.size() ? i : 0];
    }
    std::vector<std::string> words;
    if (figure.row.check.find("{}") != std::string::npos) words.push_back(spelled(*own.front()));
    ReproducedRow& row =
        figures.add(id, predicted(measure_of(id, figure), *own.front(), over.front()), words);
    row.question = figure.question;
    if (figure.row.kind != FigureKind::Range) continue;
    for (std::size_t i = 0; i < own.size(); ++i) {
      row.widen(predicted(measure_of(id, figure), *own[i], over[i]).at_site);
    }
  }
}

}  // namespace plansearch
