// SPDX-License-Identifier: Apache-2.0
// Shell text of an export: arrays of arguments, files written in place, launch scripts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exporters/export_plan.hpp"

namespace plansearch::exporters {

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
