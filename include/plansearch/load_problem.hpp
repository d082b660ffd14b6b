// SPDX-License-Identifier: Apache-2.0
// From names and a few numbers to a Problem with nothing left open, and who decided each value.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/placements.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

/// Contents of the files, read once. Cheap to copy.
struct ProblemFiles {
  std::shared_ptr<const Cluster> cluster;
  std::shared_ptr<const ShippedModel> model;
  std::shared_ptr<const Framework> framework;
  std::shared_ptr<const SiteTable> sites;
};

/// A question with nothing left open but the number of GPUs, which a ladder of sizes varies.
struct ResolvedQuestion {
  ProblemRequest request;        ///< as asked, what a plan file adds included
  Problem problem;               ///< `gpus`: as asked for, else all of the machine
  std::optional<int> gpus;       ///< as asked for
  std::optional<double> tokens;  ///< to train on, as asked for
  std::vector<SettingReport> settings;
  std::string evidence;            ///< what the numbers rest on
  std::vector<std::string> notes;  ///< remarks for the reader of the answer
  ProblemFiles files;
  /// How a plan file places operators in every plan of a search, on the problem's network.
  std::shared_ptr<const Placements> placements{};
  /// Selectors of blocks that lie on the devices of all stages in every plan of a search.
  std::vector<std::string> shared_blocks{};
  /// Whether plans of a search are decided in more than settings and degrees.
  [[nodiscard]] bool decides_plans() const { return placements || !shared_blocks.empty(); }
};

/// Reads the three files. InputError for unknown names and for anything wrong in a file.
[[nodiscard]] ProblemFiles read_problem_files(const ProblemRequest& request,
                                              const ShippedData& data = shipped_data());

/// Settles every value: flag > plan > model > framework > profile > default. InputError for values
/// that the machine, the model or the framework do not have, with those they do.
[[nodiscard]] ResolvedQuestion resolve_question(const ProblemRequest& request,
                                                const ProblemFiles& files);

/// Both in one.
[[nodiscard]] ResolvedQuestion load_problem(const ProblemRequest& request,
                                            const ShippedData& data = shipped_data());

/// The same question for a number of GPUs.
[[nodiscard]] Problem with_gpus(const ResolvedQuestion& asked, int gpus);

}  // namespace plansearch
