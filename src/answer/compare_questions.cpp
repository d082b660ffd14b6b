// SPDX-License-Identifier: Apache-2.0
#include "answer/compare_questions.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <utility>
#include <variant>

#include "answer/make_report.hpp"
#include "answer/search_answer.hpp"
#include "answer/sweep.hpp"
#include "base/names.hpp"
#include "base/overrides.hpp"
#include "base/ranges.hpp"
#include "evaluate/answer/interval.hpp"
#include "plansearch/error.hpp"
#include "plansearch/search.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/stop_token.hpp"
#include "question/gpu_count.hpp"
#include "question/resolve_plan.hpp"
#include "report/plan_cells.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kMostQuestions = 64;
/// "a,b"; the name of a file may hold commas.
std::vector<std::string> names_of(const std::string& text) {
  std::error_code error;
  if (text.find(',') == std::string::npos || std::filesystem::exists(text, error)) return {text};
  return words_of(text, ",");
}

[[noreturn]] void refuse_more() {
  throw InputError({}, fmt::format("more than {} questions to compare", kMostQuestions),
                   "shorten the lists");
}

/// Every question so far, once for each value; `set` gives one to a question.
template <typename T, typename Set>
void vary(std::vector<ProblemRequest>& questions, const std::vector<T>& values, Set set) {
  if (values.empty()) return;
  std::vector<ProblemRequest> varied;
  for (const ProblemRequest& question : questions) {
    for (const T& value : values) set(varied.emplace_back(question), value);
  }
  if (varied.size() > kMostQuestions) refuse_more();
  questions = std::move(varied);
}

/// Settings of words that a comparison takes several of.
constexpr std::array kVaried{Setting::Precision, Setting::Task, Setting::BasePrecision,
                             Setting::MainGradients};

std::vector<std::string> values_of(const ProblemRequest& request, Setting setting) {
  const auto text = row_of(setting).get(request);
  return text ? names_of(*text) : std::vector<std::string>();
}

/// Among tasks that are compared, those that train every weight have no other ones: one question
/// each, whatever formats are listed.
void leave_out_base_precision(const ProblemRequest& request,
                              std::vector<ProblemRequest>& questions) {
  const std::vector<std::string> formats = values_of(request, Setting::BasePrecision);
  if (formats.empty() || values_of(request, Setting::Task).size() < 2) return;
  const auto trains_all = [](const ProblemRequest& question) {
    return question.task != "lora" && !question.lora_rank;
  };
  std::erase_if(questions, [&](const ProblemRequest& question) {
    return trains_all(question) && question.base_precision != formats.front();
  });
  for (ProblemRequest& question : questions) {
    if (trains_all(question)) question.base_precision.reset();
  }
}

/// Spread of the error of one prediction, by the interval that holds 80 % of outcomes.
double sigma_of(const PlanReport& plan) {
  return std::log(plan.p90 / plan.p10) / (2.0 * kNormalP90);
}

/// Whether one is a change of the other, or both are of a third.
bool are_relatives(const Cluster& a, const Cluster& b) {
  std::vector<std::string> names = b.like;
  names.push_back(b.name);
  const auto among = [&](const std::string& name) { return contains(names, name); };
  return among(a.name) || std::ranges::any_of(a.like, among);
}

/// Whether times on both rest on the same measured curves, as on a machine and one that is like it
/// but for some sizes and rates.
bool share_curves(const Cluster& a, const Cluster& b) {
  if (!are_relatives(a, b) || a.tiers.size() != b.tiers.size() ||
      a.accelerator.kernels != b.accelerator.kernels) {
    return false;
  }
  const auto same_origin = [](const LinkTier& p, const LinkTier& q) {
    if (p.curve == q.curve) return true;
    const auto origin = [](const auto& curve) { return curve.origin; };
    const std::string name = std::visit(origin, p.curve);
    return !name.empty() && name == std::visit(origin, q.curve);
  };
  return std::equal(a.tiers.begin(), a.tiers.end(), b.tiers.begin(), same_origin);
}

/// Whether two questions differ in values of the machine alone, which were set.
bool is_what_if(const ComparedRow& a, const ComparedRow& b) {
  const QuestionReport& p = a.question;
  const QuestionReport& q = b.question;
  const auto of_machine = [](const std::string& set) {
    return overrides_of(set, OverriddenFile::Hardware).size() == parse_overrides(set).size();
  };
  return a.set != b.set && of_machine(a.set) && of_machine(b.set) && p.hardware == q.hardware &&
         p.model == q.model && p.framework == q.framework && p.precision == q.precision &&
         p.gpus == q.gpus;
}

/// Errors that two rows share cancel only where kernels, links and framework are the same.
double sigma_between(const ComparedRow& a, const ComparedRow& b, bool same_curves,
                     double paired_sigma) {
  const QuestionReport& p = a.question;
  const QuestionReport& q = b.question;
  const bool shared = same_curves && p.model == q.model && p.framework == q.framework &&
                      p.precision == q.precision && p.gpus == q.gpus;
  return shared ? paired_sigma : std::hypot(sigma_of(*a.plan), sigma_of(*b.plan));
}

class Comparison {
 public:
  /// `asked`: the question of the row, absent where it cannot be asked.
  void add(ComparedRow row, const ResolvedQuestion* asked) {
    if (asked != nullptr) {
      const auto measured = static_cast<std::size_t>(Evidence::Measured);
      row.measured = count_evidence(*asked->problem.cluster)[measured] > 0;
      row.set = asked->request.set.value_or("");
      if (report_.rows.empty()) first_ = asked->problem;
    }
    if (row.plan && !report_.rows.empty() && report_.rows.front().plan) {
      relate(row, *asked);
    } else if (row.plan && report_.rows.empty()) {
      row.speed = 1.0;
    }
    report_.rows.push_back(std::move(row));
  }
  void rests_on(const Problem& problem) { add_new(evidence_of(problem), report_.evidence); }
  void note(const std::vector<std::string>& notes) { add_new(notes, report_.notes); }
  [[nodiscard]] ComparisonReport take() { return std::move(report_); }

 private:
  static void add_new(const std::vector<std::string>& lines, std::vector<std::string>& known) {
    for (const std::string& line : lines) {
      if (!contains(known, line)) known.push_back(line);
    }
  }
  /// Speed over the first row, and how sure it is.
  void relate(ComparedRow& row, const ResolvedQuestion& asked) const {
    const ComparedRow& first = report_.rows.front();
    row.speed = row.plan->tokens_per_s / first.plan->tokens_per_s;
    const double sigma = sigma_to_first(row, asked);
    row.speed_p10 = *row.speed * std::exp(-kNormalP90 * sigma);
    row.speed_p90 = *row.speed * std::exp(kNormalP90 * sigma);
    const double sure =
        probability_faster(Seconds(1.0), Seconds(std::max(*row.speed, 1.0 / *row.speed)), sigma);
    row.tie_with_first = sure < kTieProbability;
  }

  [[nodiscard]] double sigma_to_first(const ComparedRow& row, const ResolvedQuestion& asked) const {
    const ComparedRow& first = report_.rows.front();
    const double paired = paired_sigma_of(asked);
    if (is_what_if(first, row)) {
      const bool same_plan = *first.plan->plan.plan == *row.plan->plan.plan;
      const double changed =
          what_if_sigma(error_model(*first_), first.plan->estimate.step, row.plan->estimate.step);
      return std::hypot(changed, same_plan ? 0.0 : paired);
    }
    return sigma_between(first, row, share_curves(*first_->cluster, *asked.problem.cluster),
                         paired);
  }

  /// Spread between plans of the row's own framework.
  static double paired_sigma_of(const ResolvedQuestion& asked) {
    return asked.problem.framework->constants.paired_sigma;
  }

  ComparisonReport report_;
  std::optional<Problem> first_;
};

/// Empty where any will do.
std::string asked_order(const ProblemRequest& question) {
  const auto order = question.degrees.get(Degree::Schedule);
  return order ? std::string(to_text(static_cast<ScheduleId>(*order))) : std::string();
}

/// The best plan of a question whose files are read.
ComparedRow answer_of(const ResolvedQuestion& asked, SearchSession& session,
                      const Reliability* reliability) {
  ComparedRow row;
  row.question = question_report(asked, asked.problem);
  row.schedule = asked_order(asked.request);
  const QuestionReport& q = row.question;
  auto found = session.report(asked, *asked.gpus,
                              fmt::format("{} on {} {}, {}, batch {}", q.model, q.gpus, q.hardware,
                                          q.framework, q.global_batch),
                              SideQuestions::None);
  if (const auto* none = std::get_if<Infeasible>(&found)) {
    row.why_none = none->detail;
    return row;
  }
  auto& report = std::get<SearchReport>(found);
  if (report.plans.empty()) {
    row.why_none = report.stopped ? "cut short, nothing found" : "no plan fits";
  } else {
    std::vector<std::string> advice;
    if (report.stopped) advice.push_back(report.optimality);
    if (reliability != nullptr) {
      row.goodput = goodput_of(with_gpus(asked, *asked.gpus), *reliability);
    }
    for (std::string& text : row_advice(asked, report, session)) advice.push_back(std::move(text));
    row.advice = fmt::format("{}", fmt::join(advice, "; "));
    row.plan = std::move(report.plans.front());
  }
  row.accelerators_per_node = asked.problem.cluster->accelerators_per_node;
  return row;
}

/// The fields of a question whose files are not read any more.
QuestionReport as_written(const ProblemRequest& question) {
  QuestionReport report;
  report.hardware = question.hardware;
  report.model = question.model;
  report.framework = question.framework;
  report.precision = question.precision.value_or("-");
  report.gpus = question.gpus.value_or(0);
  report.global_batch = question.batch.value_or(0);
  report.seq_len = question.seq_len.value_or(0);
  return report;
}

/// The known fields of a question that cannot be asked.
QuestionReport unsettled(const ProblemRequest& question, const ProblemFiles& files) {
  QuestionReport report;
  report.hardware = files.cluster->name;
  report.accelerator = files.cluster->accelerator.name;
  report.model = files.model->description.name;
  report.framework = files.framework->name;
  report.framework_validation = files.framework->validation;
  report.precision = question.precision.value_or("-");
  const int nodes = question.nodes.value_or(1);
  report.gpus = question.gpus.value_or(nodes * files.cluster->accelerators_per_node);
  const TrainingDefaults& defaults = files.model->description.training;
  report.global_batch = question.batch.value_or(defaults.global_batch);
  report.seq_len = question.seq_len.value_or(defaults.seq_len);
  report.memory_capacity = files.cluster->accelerator.memory;
  return report;
}

}  // namespace

bool asks_several(const ProblemRequest& request) {
  const auto is_list = [](const std::string& text) { return names_of(text).size() > 1; };
  return is_list(request.hardware) || is_list(request.model) || is_list(request.framework) ||
         std::ranges::any_of(kVaried,
                             [&](Setting s) { return values_of(request, s).size() > 1; }) ||
         !request.batch_list.empty() || !request.seq_len_list.empty() ||
         override_combinations(request.set.value_or("")).size() > 1;
}

bool is_sized(const ProblemRequest& request) {
  return request.gpus || request.nodes || !request.gpu_list.empty() || !request.node_list.empty();
}

namespace {

/// A machine with a size of its own has no other; those asked for are the other machines'.
ProblemRequest of_machine(const ProblemRequest& request, const std::string& name) {
  ProblemRequest plain;
  plain.hardware = name;
  plain = with_own_size(std::move(plain));
  ProblemRequest one = request;
  one.hardware = plain.hardware;
  if (!plain.gpus) return one;
  one.gpus = plain.gpus;
  one.nodes.reset();
  one.gpu_list.clear();
  one.node_list.clear();
  return one;
}

}  // namespace

std::vector<ProblemRequest> machine_questions(const ProblemRequest& request) {
  std::vector<ProblemRequest> questions;
  bool idle = is_sized(request);
  for (const std::string& name : names_of(request.hardware)) {
    questions.push_back(of_machine(request, name));
    idle = idle && questions.back().hardware != name;
  }
  if (idle) static_cast<void>(with_own_size(request));
  return questions;
}

namespace {

std::vector<ProblemRequest> questions_of_machine(const ProblemRequest& request) {
  if (!is_sized(request)) {
    throw InputError({}, "a comparison needs a number of GPUs",
                     "give --gpus N or --nodes N, lists of them, or --hw h100:8,l40s:4");
  }
  ProblemRequest one = request;
  one.gpu_list.clear();
  one.node_list.clear();
  one.batch_list.clear();
  one.seq_len_list.clear();
  std::vector<ProblemRequest> questions{one};
  using R = ProblemRequest;
  const auto vary_member = [&](const auto& values, auto member) {
    vary(questions, values, [&](R& question, const auto& value) { question.*member = value; });
  };
  vary_member(names_of(request.model), &R::model);
  vary_member(names_of(request.framework), &R::framework);
  for (const Setting setting : kVaried) {
    const std::vector<std::string> values = values_of(request, setting);
    if (values.size() > 1) vary(questions, values, row_of(setting).set);
  }
  leave_out_base_precision(request, questions);
  if (request.set) vary_member(override_combinations(*request.set), &R::set);
  vary_member(request.seq_len_list, &R::seq_len);
  vary_member(request.gpu_list, &R::gpus);
  vary_member(request.node_list, &R::nodes);
  vary_member(request.batch_list, &R::batch);
  std::vector<PinnedDegrees> orders;
  for (const int order : request.limits.listed(Degree::Schedule)) {
    orders.emplace_back(request.degrees).pin(Degree::Schedule, order);
  }
  vary_member(orders, &R::degrees);
  if (!orders.empty()) {
    for (R& question : questions) question.limits.release(Degree::Schedule);
  }
  return questions;
}

}  // namespace

std::vector<ProblemRequest> separate_questions(const ProblemRequest& request) {
  std::vector<ProblemRequest> questions;
  for (const ProblemRequest& machine : machine_questions(request)) {
    for (ProblemRequest& one : questions_of_machine(machine)) questions.push_back(std::move(one));
  }
  if (questions.size() > kMostQuestions) refuse_more();
  return questions;
}

ComparisonReport compare_questions(const std::vector<ProblemRequest>& questions,
                                   SearchSession& session, const Reliability* reliability) {
  Comparison comparison;
  std::optional<InputError> first_refusal;
  bool any = false;
  QuestionFiles read;  // those of equal names once
  for (const ProblemRequest& question : questions) {
    const auto add_unanswered = [&](QuestionReport about, std::string why) {
      ComparedRow row;
      row.question = std::move(about);
      row.schedule = asked_order(question);
      row.set = question.set.value_or("");
      row.why_none = std::move(why);
      comparison.add(std::move(row), nullptr);
    };
    if (session.stopped() || stop_reason() != StopReason::None) {
      session.note_stop();
      add_unanswered(as_written(question), "not searched: stopped early");
      continue;
    }
    const ProblemFiles files = read.of(question);
    try {
      const ResolvedQuestion asked = resolve_question(question, files);
      comparison.note(asked.notes);
      comparison.add(answer_of(asked, session, reliability), &asked);
      comparison.rests_on(asked.problem);
      any = true;
    } catch (const InputError& refusal) {
      if (!first_refusal) first_refusal = refusal;
      add_unanswered(unsettled(question, files), refusal.what());
    }
  }
  if (!any && first_refusal) throw InputError(*first_refusal);
  return comparison.take();
}

ComparisonReport compare_given_plans(const ProblemRequest& request,
                                     const std::vector<std::string>& plans) {
  const SwitchPriors priors = switch_priors(shipped_data());
  Comparison comparison;
  for (const std::string& name : plans) {
    const ResolvedPlan given = resolve_plan(complete_from_plan(request, name));
    if (given.inexpressible) throw InputError({}, *given.inexpressible);
    SearchReport priced = predict_as_asked(given, priors);
    ComparedRow row;
    row.question = priced.question;
    row.name = name;
    row.plan = std::move(priced.plans.front());
    row.fits = priced.misses.empty();
    comparison.add(std::move(row), &given.asked);
    comparison.rests_on(given.problem);
  }
  return comparison.take();
}

}  // namespace plansearch
