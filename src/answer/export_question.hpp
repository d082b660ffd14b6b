// SPDX-License-Identifier: Apache-2.0
// From a given plan to the configuration of another program.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "answer/write_page.hpp"
#include "plansearch/framework.hpp"
#include "question/resolve_plan.hpp"

namespace plansearch {

namespace exporters {
class Targets;
struct Exporter;
}  // namespace exporters

/// The text of an export, and what its user must add.
struct ExportResult {
  std::string text;
  std::vector<std::string> notes;
};

/// Words of --to, --from and --launch; where nothing ships, those that C++ knows.
[[nodiscard]] std::vector<std::string> exporter_names();
/// The name of the target that is called so ("trl" is accelerate); unknown words stay.
[[nodiscard]] std::string exporter_called(const std::string& word);
[[nodiscard]] std::vector<std::string> import_names();
[[nodiscard]] std::vector<std::string> launcher_names();

/// Where a plan goes, and what its job asks for beside it.
struct ExportOptions {
  std::string target;    ///< a name of the table of exporters
  std::string launcher;  ///< empty: the configuration alone
  std::vector<std::string> sbatch{};
  std::string image{};
  std::string checkpoints{};
  int save_every = 500;
  std::string out{};  ///< where the text goes; traces are written beside it
};

/// Why the target cannot express the plan: "error: ..." and "hint: ...".
struct RefusedPlan {
  std::string message;
};

/// The plan as text for a target. InputError for names that no table has, and for options of
/// another launcher. `version` is that of this program.
[[nodiscard]] std::variant<ExportResult, RefusedPlan> export_question(const ResolvedPlan& given,
                                                                      const ExportOptions& options,
                                                                      const std::string& version);

/// Plans that a target of `export` takes, for searches under --target.
class TargetFilter {
 public:
  /// The target of that name, else the one that hands plans to the framework; where there is none,
  /// every plan passes.
  TargetFilter(const std::string& target, const std::string& framework);
  /// The name of the target; empty: none.
  [[nodiscard]] std::string name() const;
  /// `limits`, without values of open degrees that no key of the target says.
  [[nodiscard]] DegreeLimits within(DegreeLimits limits, const PinnedDegrees& pinned) const;
  /// Why no plan with these degrees can be expressed, where one of them decides it.
  [[nodiscard]] std::optional<std::string> refused(const ResolvedQuestion& asked) const;
  /// Why the target cannot express the plan; no words where it can.
  struct Reasons {
    std::vector<std::string> words;
    bool of_question = false;  ///< other plans do not help
  };
  [[nodiscard]] Reasons reasons(const ResolvedPlan& given) const;

 private:
  std::shared_ptr<const exporters::Targets> targets_;
  const exporters::Exporter* target_ = nullptr;
  std::optional<Framework> rules_{};  ///< of its framework
};

/// The command that hands plan 1 of an answer to the program it was priced as; nothing where no
/// target is that program or it cannot express the plan.
[[nodiscard]] std::optional<std::string> command_to_run(const ResolvedQuestion& asked,
                                                        const PricedPlan& first,
                                                        const std::string& version);

}  // namespace plansearch
