// SPDX-License-Identifier: Apache-2.0
// Many questions, one row of an answer each, in the order of the questions whatever the number of
// threads, of processes, and of interruptions.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "io/tables/question_table.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/switch_priors.hpp"

namespace plansearch {

/// The part of the questions that one process answers: those of which number mod `of` is `index`.
struct Shard {
  std::size_t index = 0;
  std::size_t of = 1;
};

struct SweepRequest {
  std::filesystem::path questions;
  ProblemRequest common;  ///< values for what a question leaves open
  Shard shard{};
  std::filesystem::path out;                 ///< .csv, .jsonl, .sqlite or .db
  std::vector<std::filesystem::path> known;  ///< JSON lines of earlier sweeps of the same questions
  int threads = 1;
  std::vector<std::string> plots{};  ///< "sweep=FILE.svg"
};

struct SweepProgress {
  std::size_t done = 0;
  std::size_t all = 0;
};

struct SweepSummary {
  std::size_t questions = 0;  ///< of this shard
  std::size_t known = 0;      ///< answered before
  std::size_t without_plan = 0;
  std::size_t refused = 0;  ///< questions that cannot be asked; their rows say why
  bool stopped = false;     ///< answers so far are kept; the same call goes on
  std::filesystem::path journal;
};

/// Answers are kept in a journal beside `out` as they come, so that a killed sweep goes on where it
/// was; with the last one `out` is written in one step and the journal goes. InputError for a file
/// of questions that cannot be read, for answers of other questions, and for an ending that is none
/// of the above.
[[nodiscard]] SweepSummary sweep(const SweepRequest& request,
                                 const std::function<void(const SweepProgress&)>& progress);

/// Files that questions name or rest on, each read once; threads may share it.
class QuestionFiles {
 public:
  QuestionFiles();
  /// As read_problem_files, with its errors.
  [[nodiscard]] ProblemFiles of(const ProblemRequest& request);
  [[nodiscard]] const SwitchPriors& priors() const { return priors_; }

 private:
  SwitchPriors priors_;
  std::mutex mutex_;
  std::map<std::vector<std::string>, std::function<ProblemFiles()>> known_;  ///< or what is wrong
};

/// One row: the question, what became of it ("plan", "no plan", "does not fit", "refused") and why,
/// then its plan. `number` counts from 1.
[[nodiscard]] nlohmann::ordered_json answer_row(const io::TableQuestion& question,
                                                const ProblemRequest& common, std::size_t number,
                                                QuestionFiles& files);

}  // namespace plansearch
