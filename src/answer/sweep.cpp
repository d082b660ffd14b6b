// SPDX-License-Identifier: Apache-2.0
#include "answer/sweep.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "answer/sweep_files.hpp"
#include "base/parallel.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/space.hpp"
#include "plansearch/stop_token.hpp"
#include "report/json_text.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// Rows of so many questions for each thread are made before any is written.
constexpr std::size_t kBatchOfThread = 16;

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
    const bool known = name.empty() || std::any_of(spaces.begin(), spaces.end(),
                                                   [&](const auto& s) { return s.name == name; });
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
  for (io::TableQuestion& question : questions) {
    const auto add = [&](std::string_view key, const std::string& value) {
      question.text += fmt::format("{}{}={}", question.text.empty() ? "" : " ", key, value);
    };
    for (const SettingRow& row : setting_table()) {
      const auto value = row.get(common);
      if (value && !row.get(question.request)) add(row.key, *value);
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

/// What a batch of questions came to: rows as far as no question was stopped.
std::vector<std::string> answers_of(const std::vector<io::TableQuestion>& questions,
                                    const ProblemRequest& common,
                                    const std::vector<std::size_t>& numbers, int threads,
                                    QuestionFiles& files, bool& stopped) {
  std::vector<std::string> rows(numbers.size());
  try {
    parallel_for(numbers.size(), threads, [&](std::size_t i) {
      rows[i] = json_text(answer_row(questions[numbers[i] - 1], common, numbers[i], files));
    });
  } catch (const Stopped&) {
    stopped = true;
  }
  const auto gap =
      std::find_if(rows.begin(), rows.end(), [](const std::string& row) { return row.empty(); });
  rows.erase(gap, rows.end());
  return rows;
}

void count_outcomes(const AnswerTable& rows, SweepSummary& summary) {
  for (const auto& [number, text] : rows) {
    const std::string outcome = Json::parse(text).at("outcome");
    if (outcome == "refused") ++summary.refused;
    if (outcome != "plan" && outcome != "refused") ++summary.without_plan;
  }
}

}  // namespace

SweepSummary sweep(const SweepRequest& request,
                   const std::function<void(const SweepProgress&)>& progress) {
  check_ending(request.out);
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
  std::vector<std::size_t> open;
  for (const std::size_t number : numbers) {
    if (!rows.contains(number)) open.push_back(number);
  }
  summary.known = numbers.size() - open.size();
  QuestionFiles files;
  const std::size_t batch = kBatchOfThread * static_cast<std::size_t>(std::max(request.threads, 1));
  for (std::size_t at = 0; at < open.size() && !summary.stopped; at += batch) {
    progress({summary.known + at, numbers.size()});
    const std::size_t end = std::min(at + batch, open.size());
    const std::vector<std::size_t> part(open.begin() + static_cast<std::ptrdiff_t>(at),
                                        open.begin() + static_cast<std::ptrdiff_t>(end));
    const auto answers =
        answers_of(questions, request.common, part, request.threads, files, summary.stopped);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      journal.append(answers[i]);
      rows.emplace(part[i], answers[i]);
    }
  }
  summary.journal = journal.path();
  if (summary.stopped) return summary;
  AnswerTable own;
  for (const std::size_t number : numbers) own.insert(rows.extract(number));
  write_answers(request.out, own);
  journal.remove();
  count_outcomes(own, summary);
  return summary;
}

}  // namespace plansearch
