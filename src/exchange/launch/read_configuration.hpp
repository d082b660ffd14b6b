// SPDX-License-Identifier: Apache-2.0
// Reader of a configuration: the table of the exporter that writes such files, inverted.
// Content of a configuration, independent of its reader: keys, values and places.
#pragma once

#include <map>
#include <optional>
#include <string>
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
  std::string file;                   ///< the first one
  std::vector<FoundKey> keys;         ///< in the order in which they take effect
  std::vector<FoundKey> conditional;  ///< flags behind unknown conditions
  std::optional<int> gpus;            ///< as the launcher says
  std::optional<int> node_gpus;       ///< of them on a node
  std::string program;                ///< that a script starts, such as "pretrain_gpt.py"
  std::vector<std::string> notes;
  const exporters::Exporter* exported = nullptr;  ///< as the header of an export says; else null
  std::string network;                            ///< that it was exported with, by name
  bool logged = false;  ///< a log says them, with every default of the program
};

/// A file as text, and its name in messages.
struct ConfigurationFile {
  std::string text;
  std::string name;
};

/// NAME=VALUE of the command line: variables of scripts, keys that files do not have.
using Definitions = std::map<std::string, std::string, std::less<>>;

/// All files as one configuration: scripts share their variables. InputError for files that are
/// none of shell, JSON, YAML and TOML, and for exports to targets that are not read.
[[nodiscard]] FoundKeys find_keys(const exporters::Targets& targets,
                                  const std::vector<ConfigurationFile>& files,
                                  const Definitions& definitions);

[[nodiscard]] FoundKeys keys_of_scripts(const exporters::Targets& targets,
                                        const std::vector<ConfigurationFile>& files,
                                        const Definitions& definitions);
/// The keys of a document in a script; none where no target knows any of them.
[[nodiscard]] std::vector<FoundKey> keys_of_document(const exporters::Targets& targets,
                                                     const ConfigurationFile& document);
/// The shell script that the containers of a Kubernetes job run, and the accelerators that they ask
/// for together; empty for other YAML.
struct JobScript {
  std::string script;
  int gpus = 0;
};
[[nodiscard]] JobScript script_of_job(const ConfigurationFile& file);
/// The arguments that a training program printed at the head of its log; none where there is no such list.
[[nodiscard]] FoundKeys keys_of_log(const exporters::Targets& targets,
                                    const ConfigurationFile& file);
/// Variables of the environment ("${TP}") take their values from `definitions`.
[[nodiscard]] std::vector<FoundKey> keys_of_yaml(const ConfigurationFile& file,
                                                 const Definitions& definitions);
[[nodiscard]] std::vector<FoundKey> keys_of_json(const ConfigurationFile& file,
                                                 const Definitions& definitions);
[[nodiscard]] std::vector<FoundKey> keys_of_toml(const ConfigurationFile& file);

using exporters::plain_value;

/// The targets of a word that the user typed: a target, "nemo", "gpt-neox". InputError for other words.
[[nodiscard]] std::vector<const exporters::Exporter*> targets_called(
    const exporters::Targets& targets, const std::string& name);

struct ReadConfiguration {
  const exporters::Exporter* target = nullptr;
  exporters::Reading reading;
  std::vector<FoundKey> unread;  ///< keys that say nothing of a plan, or nothing that is known
  std::vector<std::string> notes;
};

/// Options of the command line other than the files.
struct Typed {
  std::string target{};      ///< or a family of them; empty: told by the keys
  ProblemRequest request{};  ///< settings and degrees, which win
  Definitions definitions{};
  std::int64_t layers = 0;  ///< of the network that it names
  int node_gpus = 0;        ///< of the machine that it names
};

/// The target whose table knows most of the keys. InputError for values that their keys do not
/// take, that depend on unknown variables, that contradict each other, and for files in which no
/// key is known.
[[nodiscard]] ReadConfiguration read_configuration(const exporters::Targets& targets,
                                                   FoundKeys found, const Typed& typed);

}  // namespace plansearch::importers
