// SPDX-License-Identifier: Apache-2.0
// Hands one plan to one target, or says what the target cannot express.
#pragma once

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

using Settings = std::bitset<kSettingCount>;
/// The settings that the keys written for the plan say.
[[nodiscard]] Settings said_by_keys(const Exporter& exporter, const ExportRequest& request);

/// One thing the target cannot express.
struct Refusal {
  std::string what;          ///< "vpp 2", "gemma2-9b has norms behind each sublayer"
  std::string accepted;      ///< "1"; empty where nothing would do
  bool of_question = false;  ///< for any plan of its network and settings
  bool operator==(const Refusal&) const = default;
};

/// Everything about the plan that the target cannot express; empty when it can. Every setting that
/// matters must have a value the target accepts, and be said by a key that is written, unless it is
/// the value the target takes without one, what the target always does, or left to the script.
[[nodiscard]] std::vector<Refusal> refusals(const Exporter& exporter, const ExportRequest& request);

enum class Launcher : std::uint8_t { None, Slurm, Torchrun, Kubernetes };
[[nodiscard]] const std::vector<std::string>& launcher_names();  ///< of all but None
[[nodiscard]] Launcher find_launcher(std::string_view name);

struct Exported {
  std::string text;                ///< the file
  std::vector<std::string> notes;  ///< what the user must add; in the file too
};
/// For a plan without refusals.
[[nodiscard]] Exported export_plan(const Exporter& exporter, const ExportRequest& request,
                                   Launcher launcher);

/// The header of an export: the title of its target and the network; empty for any other text.
struct ExportedHeader {
  std::string title;
  std::string network;
};
[[nodiscard]] ExportedHeader exported_header(std::string_view text);

/// The name and value of each key that is written.
[[nodiscard]] Entries entries_of(const Document& document, const ExportRequest& request);

/// "any", "1, 2", "1 (script)": one cell of the table of capabilities.
[[nodiscard]] std::string capability_text(const Exporter& exporter, Setting setting);

/// One word of a POSIX shell.
[[nodiscard]] std::string shell_word(std::string_view text);
/// "NAME=(\n  --flag value\n)\n"
[[nodiscard]] std::string shell_array(std::string_view name, const Entries& entries);
/// "# line\n" each.
[[nodiscard]] std::string shell_comments(const std::vector<std::string>& lines);
/// Writes `text` to the file that the shell expression `path` names.
[[nodiscard]] std::string shell_file(std::string_view path, std::string_view text);

/// The script that a node of a torchrun job runs as a PyTorchJob of Kubeflow's training operator.
[[nodiscard]] std::string kubernetes_job(const ExportRequest& request,
                                         const std::vector<std::string>& header,
                                         const std::string& script);

/// A script that starts the job: the environment, `body`, the command.
[[nodiscard]] std::string launch_script(const Exporter& exporter, const ExportRequest& request,
                                        Launcher launcher, const std::vector<std::string>& header,
                                        const std::string& body);

/// "export NAME=value", "unset NAME"
[[nodiscard]] std::string environment_text(const Exporter& exporter, const ExportRequest& request);

}  // namespace plansearch::exporters
