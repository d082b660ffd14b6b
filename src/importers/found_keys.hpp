// SPDX-License-Identifier: Apache-2.0
// What stands in a configuration, whoever reads it: keys, values and places.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/exporter.hpp"
#include "plansearch/error.hpp"

namespace plansearch::importers {

using exporters::Value;

struct FoundKey {
  std::string name;  ///< a flag, or a path such as "training.seq_len"
  Value value;
  SourceLocation where;
  std::optional<std::string> unknown{};  ///< the variable or command that the value depends on
};

struct FoundKeys {
  std::vector<FoundKey> keys;         ///< in the order in which they take effect
  std::vector<FoundKey> conditional;  ///< flags behind conditions that nobody knows
  std::optional<int> gpus;            ///< as the launcher says
  std::optional<int> node_gpus;       ///< of them on a node
  std::string program;                ///< that a script starts, such as "pretrain_gpt.py"
  std::vector<std::string> notes;
};

/// A file as text, and its name in messages.
struct ConfigurationFile {
  std::string text;
  std::string name;
};

/// NAME=VALUE of the command line: variables of scripts, keys that files do not have.
using Definitions = std::map<std::string, std::string, std::less<>>;

/// All files as one configuration: scripts share their variables. InputError for files that are
/// none of shell, JSON, YAML and TOML.
[[nodiscard]] FoundKeys find_keys(const exporters::Targets& targets,
                                  const std::vector<ConfigurationFile>& files,
                                  const Definitions& definitions);

[[nodiscard]] FoundKeys keys_of_scripts(const exporters::Targets& targets,
                                        const std::vector<ConfigurationFile>& files,
                                        const Definitions& definitions);
/// Variables of the environment ("${TP}") take their values from `definitions`.
[[nodiscard]] std::vector<FoundKey> keys_of_yaml(const ConfigurationFile& file,
                                                 const Definitions& definitions);
[[nodiscard]] std::vector<FoundKey> keys_of_json(const ConfigurationFile& file,
                                                 const Definitions& definitions);
[[nodiscard]] std::vector<FoundKey> keys_of_toml(const ConfigurationFile& file);

using exporters::plain_value;

}  // namespace plansearch::importers
