// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "importers/found_keys.hpp"

namespace plansearch::importers {
namespace {

enum class Form { Shell, Json, Yaml, Toml };

bool ends_with(const std::string& name, std::initializer_list<const char*> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](const char* ending) { return name.ends_with(ending); });
}

/// By its name, else by what it starts with.
Form form_of(const ConfigurationFile& file) {
  if (ends_with(file.name, {".json"})) return Form::Json;
  if (ends_with(file.name, {".yaml", ".yml"})) return Form::Yaml;
  if (ends_with(file.name, {".toml"})) return Form::Toml;
  if (ends_with(file.name, {".sh", ".slurm", ".sbatch", ".bash"})) return Form::Shell;
  if (file.text.starts_with("#!")) return Form::Shell;
  const auto first = file.text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && file.text[first] == '{') return Form::Json;
  std::size_t tables = 0, keys = 0, flags = 0;
  std::size_t begin = 0;
  while (begin < file.text.size()) {
    const std::size_t end = std::min(file.text.find('\n', begin), file.text.size());
    std::string_view line = std::string_view(file.text).substr(begin, end - begin);
    begin = end + 1;
    const auto letter = line.find_first_not_of(" \t");
    if (letter == std::string_view::npos || line[letter] == '#') continue;
    if (line.find("--") != std::string_view::npos) ++flags;
    line.remove_prefix(letter);
    if (line.front() == '[' && line.find(']') != std::string_view::npos) ++tables;
    if (line.find(": ") != std::string_view::npos || line.ends_with(":")) ++keys;
  }
  if (flags > tables && flags > keys) return Form::Shell;
  if (tables > 0 && keys <= tables) return Form::Toml;
  return keys > 0 ? Form::Yaml : Form::Shell;
}

}  // namespace

FoundKeys find_keys(const exporters::Targets& targets, const std::vector<ConfigurationFile>& files,
                    const Definitions& definitions) {
  std::vector<ConfigurationFile> scripts;
  FoundKeys found;
  const auto add = [&](std::vector<FoundKey> keys) {
    for (FoundKey& key : keys) found.keys.push_back(std::move(key));
  };
  for (const ConfigurationFile& file : files) {
    switch (form_of(file)) {
      case Form::Json:
        add(keys_of_json(file, definitions));
        break;
      case Form::Yaml:
        add(keys_of_yaml(file, definitions));
        break;
      case Form::Toml:
        add(keys_of_toml(file));
        break;
      case Form::Shell:
        scripts.push_back(file);
    }
  }
  if (scripts.empty()) return found;
  FoundKeys said = keys_of_scripts(targets, scripts, definitions);
  add(std::move(said.keys));
  said.keys = std::move(found.keys);
  return said;
}

}  // namespace plansearch::importers
