// SPDX-License-Identifier: Apache-2.0
// Keys of JSON and YAML.
#include <algorithm>

#include "importers/found_keys.hpp"
#include "io/document.hpp"
#include "io/raw_value.hpp"

namespace plansearch::importers {
namespace {

using exporters::value_of;

void flatten(const io::RawValue& map, const std::string& path, const std::string& file,
             std::vector<FoundKey>& keys) {
  for (const io::RawEntry& entry : map.entries) {
    // Lists of flags stand under names of their own ("MODEL_ARGS: --num-layers: 32").
    const bool whole = path.empty() || entry.key.starts_with("--");
    const std::string name = whole ? entry.key : path + "." + entry.key;
    if (entry.value.kind == io::RawKind::Map) {
      flatten(entry.value, name, file, keys);
    } else {
      keys.push_back({name, value_of(entry.value), {file, entry.line, entry.column}});
    }
  }
}

/// "${a.b}" and "${.sibling}" as OmegaConf replaces them, and variables of the environment that are
/// defined; others depend on what is not in the file.
void interpolate(std::vector<FoundKey>& keys, const Definitions& definitions) {
  for (FoundKey& key : keys) {
    if (!key.value.is_string()) continue;
    const std::string text = key.value.get<std::string>();
    if (text.find("${") == std::string::npos) continue;
    const bool whole = text.starts_with("${") && text.find('}') == text.size() - 1;
    std::string name = whole ? text.substr(2, text.size() - 3) : text;
    key.unknown = name;
    if (!whole) continue;
    if (const auto defined = definitions.find(name); defined != definitions.end()) {
      key.value = plain_value(defined->second);
      key.unknown.reset();
      continue;
    }
    if (name.starts_with(".")) {
      const auto dot = key.name.rfind('.');
      name = dot == std::string::npos ? name.substr(1) : key.name.substr(0, dot) + name;
    }
    const auto found = std::find_if(keys.begin(), keys.end(),
                                    [&](const FoundKey& other) { return other.name == name; });
    if (found == keys.end() || found->unknown) continue;
    if (found->value.is_string() && found->value.get<std::string>().find("${") != std::string::npos)
      continue;
    key.value = Value(found->value);
    key.unknown.reset();
  }
}

std::vector<FoundKey> keys_of(const ConfigurationFile& file, io::Syntax syntax,
                              const Definitions& definitions) {
  const io::Document document = io::Document::parse(file.text, file.name, syntax);
  std::vector<FoundKey> keys;
  if (!document.root().is_map()) document.root().fail("expected keys and values");
  flatten(document.raw(), {}, file.name, keys);
  interpolate(keys, definitions);
  return keys;
}

}  // namespace

std::vector<FoundKey> keys_of_yaml(const ConfigurationFile& file, const Definitions& definitions) {
  return keys_of(file, io::Syntax::Yaml, definitions);
}

std::vector<FoundKey> keys_of_json(const ConfigurationFile& file, const Definitions& definitions) {
  return keys_of(file, io::Syntax::Json, definitions);
}

}  // namespace plansearch::importers
