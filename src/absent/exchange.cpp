// SPDX-License-Identifier: Apache-2.0
// Stands in for the wing `exchange` in builds that leave it out.
#include <array>

#include "absent/left_out.hpp"
#include "answer/write_execution_traces.hpp"
#include "io/model/model_reader.hpp"
#include "question/logged_plan.hpp"

namespace plansearch::cli {
std::span<const CommandRow> exchange_commands() {
  static constexpr std::array kRows{CommandRow{"import",
                                               "a plan from a launch script: not in this build",
                                               Shares::Output, left_out<Wing::Exchange>}};
  return kRows;
}

}  // namespace plansearch::cli

namespace plansearch {

io::Document io::read_import(const std::filesystem::path& path,
                             const std::filesystem::path& /*stubs*/,
                             const std::filesystem::path& /*families*/) {
  refuse_left_out(path.string(), "exchange");
}

std::optional<PlanRequest> plan_in_log(const std::string& /*log*/, const ProblemRequest& /*typed*/,
                                       std::vector<std::string>& /*notes*/) {
  return std::nullopt;
}

ExportResult write_execution_traces(const Problem& /*problem*/, const ParallelPlan& /*plan*/,
                                    const std::string& /*out*/, const std::string& /*version*/) {
  refuse_left_out("--to chakra", "exchange");
}

}  // namespace plansearch
