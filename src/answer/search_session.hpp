// SPDX-License-Identifier: Apache-2.0
// Several searches on behalf of one question, and its side questions.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "answer/export_question.hpp"
#include "answer/make_report.hpp"
#include "io/document/file.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/load_problem.hpp"
#include "plansearch/report.hpp"
#include "plansearch/search.hpp"

namespace plansearch {

/// The best plan of a search, and whether it is sure enough to fit.
struct BestPlan : PlanCandidate {
  double memory_risk = 0.0;              ///< of running out of memory
  MemoryFit admitted = MemoryFit::Fits;  ///< Tight where nothing fits
};

/// Questions that a report answers beside its own.
enum class SideQuestions {
  None,
  OfPlans,  ///< orders that the framework does not run, frameworks for plan 1
  All,      ///< and, where nothing fits, the plans that exceed memory least
};

class PlanFile;

class SearchSession {
 public:
  /// `announce` is told what is looked for before every search, and nothing ("") after it.
  SearchSession(SearchOptions options, std::function<void(const std::string& label)> announce);

  /// The best plans of the question's space on `gpus` accelerators, or why it has none at all.
  /// InputError for a degree that no plan of the network or the framework has.
  [[nodiscard]] std::variant<SearchReport, Infeasible> report(const ResolvedQuestion& asked,
                                                              int gpus, const std::string& label,
                                                              SideQuestions beside);
  /// The plan that the table of the answer would show first, at the site asked about, without a report; nothing when none fits or there
  /// is none. `admitted`: Fits where one that may fit is not looked for. Throws Stopped where there is no
  /// time to find it.
  [[nodiscard]] std::optional<BestPlan> best(const ResolvedQuestion& asked, int gpus,
                                             const std::string& label,
                                             MemoryFit admitted = MemoryFit::Tight);
  /// Whether `best` is one that fits, without looking for the fastest.
  [[nodiscard]] bool fits(const ResolvedQuestion& asked, int gpus, const std::string& label);
  /// The plan that exceeds memory least; nothing where one fits or there is none.
  [[nodiscard]] std::optional<NearMiss> closest(const ResolvedQuestion& asked, int gpus,
                                                const std::string& label);
  /// Whether the question has any plan for this many GPUs, whatever memory it takes.
  [[nodiscard]] bool has_plans(const ResolvedQuestion& asked, int gpus);
  /// Reports from here on hold the Pareto front too.
  void show_front() { front_ = FrontShown::Yes; }
  /// How far reports look for plans that the framework does not run.
  void look_beyond(Beyond how_far) { beyond_ = how_far; }
  /// Every plan that reports are about goes to a file as well.
  void write_all_to(PlanFile& file) { all_ = &file; }
  /// True when a search had to stop before its end.
  [[nodiscard]] bool stopped() const { return stopped_; }
  /// Something else than a search had to stop.
  void note_stop() { stopped_ = true; }
  /// Asks a side question for as much work as one core does in some two seconds, counted so that the answer does
  /// not depend on the machine. Afterwards `findings` ends with a line that says so, where that was
  /// too little for all of `what`.
  void ask_aside(std::vector<std::string>& findings, std::string_view what,
                 const std::function<void()>& question);

 private:
  /// The request of a search; under --target, of the degrees that the target takes.
  [[nodiscard]] SearchRequest request_of(const ResolvedQuestion& asked);
  /// Under --target: leaves ranked plans out that it cannot express; why, where none is left.
  [[nodiscard]] std::optional<Infeasible> keep_expressible(const ResolvedQuestion& asked,
                                                           const PlanEvaluator& evaluator,
                                                           SearchResult& result, bool& of_question);
  /// A search whose ranked plans the target takes, further down where it takes none of the best.
  [[nodiscard]] std::variant<SearchResult, Infeasible> expressible(const ResolvedQuestion& asked,
                                                                   const PlanEvaluator& evaluator,
                                                                   std::string_view space,
                                                                   SearchOptions options,
                                                                   const std::string& label);
  /// Under a framework that is a target itself: what its files say of the plans, and whether the
  /// search was narrowed to those that they can say.
  struct ByFiles {
    std::string words;
    bool narrowed = false;
  };
  /// The same where the question names such a framework: its plans are those that its files can
  /// say, where there are some.
  [[nodiscard]] std::variant<SearchResult, Infeasible> exportable(
      const ResolvedQuestion& asked, const PlanEvaluator& evaluator, std::string_view space,
      const SearchOptions& options, const std::string& label, ByFiles& said);
  /// The best plans alone, with those that tie; of `top` 0, the first found that fits. `misses`: so
  /// many of those that exceed memory least, where none fits.
  [[nodiscard]] SearchResult first(const ResolvedQuestion& asked, const PlanEvaluator& evaluator,
                                   std::size_t top, const std::string& label, MemoryFit admitted,
                                   std::size_t misses = 0);
  const TargetFilter& filter_of(const ResolvedQuestion& asked);
  /// The evaluator of so many GPUs; those that follow each other share what they can.
  [[nodiscard]] PlanEvaluator evaluator_of(const ResolvedQuestion& asked, int gpus);

  [[nodiscard]] std::variant<SearchResult, Infeasible> run(const PlanEvaluator& evaluator,
                                                           const SearchRequest& request,
                                                           std::string_view space,
                                                           SearchOptions options,
                                                           const std::string& label);

  SearchOptions options_;
  std::function<void(const std::string&)> announce_;
  bool stopped_ = false;
  FrontShown front_ = FrontShown::No;
  Beyond beyond_ = Beyond::Nearest;
  PlanFile* all_ = nullptr;
  std::map<std::string, TargetFilter> filters_{};  ///< by target and framework
  std::vector<std::string> targets_{};             ///< names, once they are needed
  std::shared_ptr<const ProfileMaker> profiles_{};
};

/// One flat row per plan, CSV or JSON lines by the ending of the name. Rows come in the order of
/// the space, the same for any number of threads.
class PlanFile {
 public:
  /// InputError for another ending, and when the file cannot be written.
  PlanFile(const std::filesystem::path& path, int threads);

  void write(const QuestionReport& question, const PlanEvaluator& evaluator,
             std::span<const PlanCandidate> plans);
  void add(const SearchCounts& counts);

  /// Puts the file in its place; says what is in it, and what is not.
  [[nodiscard]] std::string conclude();

 private:
  std::string name_;
  io::NewFile file_;
  Format format_;
  int threads_;
  SearchCounts counts_;
  bool begun_ = false;
};

}  // namespace plansearch
