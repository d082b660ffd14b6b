// SPDX-License-Identifier: Apache-2.0
// A file with every plan that searches price, as they go.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "io/document/file.hpp"
#include "plansearch/evaluator.hpp"
#include "plansearch/report.hpp"
#include "plansearch/search.hpp"

namespace plansearch {

/// One flat row per plan, CSV or JSON lines by the ending of the name. Rows come in the order of
/// the space, the same for any number of threads.
class PlanFile {
 public:
  /// InputError for another ending, and when the file cannot be written.
  PlanFile(const std::filesystem::path& path, int threads);

  void write(const QuestionReport& question, const PlanEvaluator& evaluator,
             std::span<const PlanCandidate> plans);
  /// Adds the counts of one search.
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
