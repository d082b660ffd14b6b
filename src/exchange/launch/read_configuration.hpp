// SPDX-License-Identifier: Apache-2.0
// Reader of a configuration: the table of the exporter that writes such files, inverted.
#pragma once

#include <string>
#include <vector>

#include "exchange/launch/found_keys.hpp"
#include "exporters/exporter.hpp"

namespace plansearch::importers {

/// The targets of a word that the user typed: a target, "nemo", "hf". InputError for other words.
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
