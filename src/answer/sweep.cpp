// SPDX-License-Identifier: Apache-2.0
#include "answer/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "answer/make_report.hpp"
#include "answer/search_session.hpp"
#include "answer/sweep_files.hpp"
#include "base/parallel.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/space.hpp"
#include "plansearch/stop_token.hpp"
#include "question/degrees.hpp"
#include "question/resolve_plan.hpp"
#include "report/columns.hpp"
#include "report/plan_fields.hpp"
#include "report/training.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// The numbers of the questions of a shard, from 1.
std::vector<std::size_t> numbers_of(const Shard& shard, std::size_t questions) {
  std::vector<std::size_t> numbers;
  for (std::size_t i = shard.index; i < questions; i += shard.of) numbers.push_back(i + 1);
  return numbers;
}

void check_spaces(const std::vector<io::TableQuestion>& questions) {
  const auto& spaces = named_spaces();
  for (const io::TableQuestion& question : questions) {
    const std::string& name = question.request.space;
    const bool known =
        name.empty() || std::ranges::any_of(spaces, [&](const auto& s) { return s.name == name; });
    if (!known) {
      throw InputError(question.where, fmt::format("there is no space '{}'", name),
                       "plansearch list spaces");
    }
  }
}

void refuse_lists(const ProblemRequest& common) {
  const bool lists = !common.gpu_list.empty() || !common.node_list.empty() ||
                     !common.batch_list.empty() || !common.seq_len_list.empty() ||
                     !common.limits.empty();
  if (!lists) return;
  throw InputError({}, "lists and bounds of a sweep belong in its file",
                   "a flag is one value for every question");
}

/// Every row says what it answers, what the command line adds included.
void name_common(const ProblemRequest& common, std::vector<io::TableQuestion>& questions) {
  std::vector<std::pair<const SettingRow*, std::string>> settings;
  for (const SettingRow& row : setting_table()) {
    if (auto value = row.get(common)) settings.emplace_back(&row, *std::move(value));
  }
  for (io::TableQuestion& question : questions) {
    const auto add = [&](std::string_view key, const std::string& value) {
      question.text += fmt::format("{}{}={}", question.text.empty() ? "" : " ", key, value);
    };
    for (const auto& [row, value] : settings) {
      if (!row->get(question.request)) add(row->key, value);
    }
    if (common.nodes && !question.request.gpus && !question.request.nodes)
      add("nodes", fmt::format("{}", *common.nodes));
    if (!common.target.empty() && question.request.target.empty()) add("target", common.target);
    if (!common.space.empty() && question.request.space.empty()) add("space", common.space);
    for (const DegreeRow& row : degree_table()) {
      const auto value = common.degrees.get(row.degree);
      if (value && !question.request.degrees.has(row.degree))
        add(key_of(row.degree, common.degrees), value_text(row.degree, *value));
    }
  }
}

/// Rows of the open questions as threads finish them, written in their order: each as soon as none
/// before it is missing.
class RowsInOrder {
 public:
  RowsInOrder(const std::vector<std::size_t>& numbers, Journal& journal, AnswerTable& written,
              std::function<void(std::size_t)> progress)
      : numbers_(numbers),
        rows_(numbers.size()),
        journal_(journal),
        written_(written),
        progress_(std::move(progress)) {}

  void put(std::size_t i, std::string row) {
    const std::lock_guard lock(mutex_);
    rows_[i] = std::move(row);
    const std::size_t before = next_;
    for (; next_ < rows_.size() && !rows_[next_].empty(); ++next_) {
      journal_.append(rows_[next_]);
      written_.emplace(numbers_[next_], std::move(rows_[next_]));
    }
    if (next_ > before) progress_(next_);
  }

 private:
  std::mutex mutex_;
  std::size_t next_ = 0;  ///< the first that is not written
  const std::vector<std::size_t>& numbers_;
  std::vector<std::string> rows_;
  Journal& journal_;
  AnswerTable& written_;
  std::function<void(std::size_t)> progress_;
};

struct Outcomes {
  std::atomic<std::size_t> refused = 0;
  std::atomic<std::size_t> without_plan = 0;

  void add(const Json& row) {
    const std::string& outcome = row.at("outcome").get_ref<const std::string&>();
    if (outcome == "refused") ++refused;
    if (outcome != "plan" && outcome != "refused") ++without_plan;
  }
};

/// Answers what is open. Throws Stopped where it was stopped before the end.
void answer_open(const std::vector<io::TableQuestion>& questions, const SweepRequest& request,
                 const std::vector<std::size_t>& open, RowsInOrder& rows, Outcomes& outcomes) {
  QuestionFiles files;
  parallel_for(open.size(), request.threads, [&](std::size_t i) {
    const Json row = answer_row(questions[open[i] - 1], request.common, open[i], files);
    outcomes.add(row);
    rows.put(i, json_text(row));
  });
}

struct Answered {
  std::string outcome = "refused";
  std::string reason;
  std::optional<QuestionReport> question;
  std::optional<PlanReport> plan;
};

ResolvedPlan resolved(const PlanRequest& asked, QuestionFiles& files) {
  if (asked.transform || asked.assign) return resolve_plan(asked);
  check_degrees(asked.request.degrees);
  return resolve_plan(asked, files.of(asked.request));
}

Answered predicted(const PlanRequest& asked, QuestionFiles& files) {
  const ResolvedPlan given = resolved(asked, files);
  Answered answer;
  if (given.inexpressible) {
    answer.reason = *given.inexpressible;
    return answer;
  }
  SearchReport report = predict_as_asked(given, files.priors());
  answer.question = report.question;
  answer.plan = std::move(report.plans.front());
  answer.outcome = report.misses.empty() ? "plan" : "does not fit";
  return answer;
}

Answered searched(const ProblemRequest& request, QuestionFiles& files) {
  check_degrees(request.degrees, request.limits);
  const ResolvedQuestion asked = resolve_question(request, files.of(request));
  if (!asked.gpus) throw InputError({}, "no number of GPUs", "give gpus or nodes");
  SearchOptions options;
  options.top = 1;
  SearchSession session(options, [](const std::string&) {});
  auto found = session.report(asked, *asked.gpus, "", SideQuestions::None);
  if (session.stopped()) throw Stopped(StopReason::Signal);  // half an answer is none
  Answered answer;
  answer.question = question_report(asked, with_gpus(asked, *asked.gpus));
  answer.outcome = "no plan";
  if (const auto* none = std::get_if<Infeasible>(&found)) {
    answer.reason = none->detail;
    return answer;
  }
  auto& report = std::get<SearchReport>(found);
  answer.question = report.question;
  if (report.plans.empty()) {
    answer.reason = "no plan fits";
    return answer;
  }
  answer.outcome = "plan";
  answer.plan = std::move(report.plans.front());
  return answer;
}

/// Values of the command line hold where the file leaves something open.
ProblemRequest with_common(const ProblemRequest& own, const ProblemRequest& common) {
  ProblemRequest asked = completed(own, common);
  if (asked.space.empty()) asked.space = common.space;
  if (!asked.gpus && !asked.nodes) asked.nodes = common.nodes;
  if (own.framework.empty() && asked.target.empty()) {
    asked.target = common.target;
    if (!asked.target.empty()) asked.framework.clear();
  }
  return asked;
}

Answered answer_of(const io::TableQuestion& question, const ProblemRequest& common,
                   QuestionFiles& files) {
  try {
    const ProblemRequest asked = with_common(question.request, common);
    return question.predict ? predicted(complete_from_plan(asked, question.plan), files)
                            : searched(asked, files);
  } catch (const InputError& error) {
    Answered answer;
    answer.reason = error.what();
    if (!error.hint().empty()) answer.reason += "; " + error.hint();
    return answer;
  }
}

/// The same keys for every question, so that rows are lines of one table.
Json values_of(const Answered& answer) {
  const QuestionReport question = answer.question.value_or(QuestionReport{});
  Json values = plan_row(question, answer.plan.value_or(PlanReport{}), RowKind::Collected);
  values.update(identity_json(question));  // a row without a plan has its own GPUs and batch
  Json row = Json::object();
  for (const auto& [key, value] : values.items()) {
    if (!key.starts_with("training_") && !key.starts_with("lora_")) row[key] = value;
  }
  const Json identity = identity_json(QuestionReport{});
  for (auto& [key, value] : row.items()) {
    const bool known =
        identity.contains(key) ? answer.question.has_value() : answer.plan.has_value();
    if (!known) value = nullptr;
  }
  const auto cost = answer.plan ? training_cost(question, *answer.plan) : std::nullopt;
  const Json training = object_of(training_columns(), cost.value_or(TrainingCost{}));
  for (const auto& [key, value] : training.items())
    row["training_" + key] = cost ? value : Json(nullptr);
  return row;
}

}  // namespace

SweepSummary sweep(const SweepRequest& request,
                   const std::function<void(const SweepProgress&)>& progress) {
  check_ending(request.out);
  check_sweep_plots(request.plots);
  refuse_lists(request.common);
  std::vector<io::TableQuestion> questions = io::read_questions(request.questions);
  check_spaces(questions);
  name_common(request.common, questions);
  const std::vector<std::size_t> numbers = numbers_of(request.shard, questions.size());
  SweepSummary summary;
  summary.questions = numbers.size();
  AnswerTable rows;
  for (const auto& file : request.known) read_answers(file, questions, rows);
  Journal journal(request.out, questions, rows);
  AnswerTable own;
  std::vector<std::size_t> open;
  for (const std::size_t number : numbers) {
    if (!own.insert(rows.extract(number)).inserted) open.push_back(number);
  }
  summary.known = own.size();
  RowsInOrder in_order(open, journal, own, [&](std::size_t done) {
    progress({summary.known + done, numbers.size()});
  });
  summary.journal = journal.path();
  try {
    Outcomes outcomes;
    for_each_row(own, request.threads, [&](std::size_t, const Json& row) { outcomes.add(row); });
    answer_open(questions, request, open, in_order, outcomes);
    summary.refused = outcomes.refused;
    summary.without_plan = outcomes.without_plan;
    write_answers(request.out, own, request.threads);
  } catch (const Stopped&) {
    summary.stopped = true;
    return summary;
  }
  journal.remove();
  if (!request.plots.empty()) write_sweep_plots(request.plots, own);
  return summary;
}

QuestionFiles::QuestionFiles() : priors_(switch_priors(shipped_data())) {}

ProblemFiles QuestionFiles::of(const ProblemRequest& request) {
  constexpr std::size_t kMost = 256;  // beyond it they are read again
  const std::vector<std::string> key{request.hardware, request.model, request.framework,
                                     request.target, request.set.value_or("")};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second();
  }
  std::function<ProblemFiles()> files;
  try {
    files = [read = read_problem_files(request)] { return read; };
  } catch (const InputError&) {
    files = [error = std::current_exception()]() -> ProblemFiles { std::rethrow_exception(error); };
  }
  {
    const std::lock_guard lock(mutex_);
    if (known_.size() == kMost) known_.clear();
    known_.emplace(key, files);
  }
  return files();
}

Json answer_row(const io::TableQuestion& question, const ProblemRequest& common, std::size_t number,
                QuestionFiles& files) {
  const Answered answer = answer_of(question, common, files);
  Json row{{"question", number},
           {"asked", question.text},
           {"outcome", answer.outcome},
           {"reason", answer.reason.empty() ? Json(nullptr) : Json(answer.reason)}};
  row.update(values_of(answer));
  return row;
}

}  // namespace plansearch
