// SPDX-License-Identifier: Apache-2.0
// The part of JSON Schema that our schemas of files use, on our located trees: type, properties,
// required, additionalProperties, enum, const, items, oneOf, minimum, maximum and their exclusive
// forms.
#pragma once

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "io/document/document.hpp"

namespace plansearch::test {

inline nlohmann::json load_schema(const std::string& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

inline void check_schema(const nlohmann::json& schema, const io::Node& node,
                         std::vector<std::string>& violations);

inline void check_object(const nlohmann::json& schema, const io::Node& node,
                         std::vector<std::string>& violations) {
  std::vector<std::string> present;
  const nlohmann::json known = schema.value("properties", nlohmann::json::object());
  const nlohmann::json others = schema.value("additionalProperties", nlohmann::json(true));
  for (const io::Node::Entry& entry : node.entries()) {
    present.push_back(entry.key);
    if (known.contains(entry.key)) {
      check_schema(known[entry.key], entry.value, violations);
    } else if (others.is_object()) {
      check_schema(others, entry.value, violations);
    } else if (!others.get<bool>()) {
      violations.push_back(node.path() + ": unknown " + entry.key);
    }
  }
  for (const auto& key : schema.value("required", nlohmann::json::array())) {
    if (std::find(present.begin(), present.end(), key.get<std::string>()) == present.end()) {
      violations.push_back(node.path() + ": missing " + key.get<std::string>());
    }
  }
}

/// One alternative at least; ours exclude each other.
inline void check_alternatives(const nlohmann::json& schemas, const io::Node& node,
                               std::vector<std::string>& violations) {
  std::vector<std::string> all;
  for (const nlohmann::json& schema : schemas) {
    std::vector<std::string> own;
    check_schema(schema, node, own);
    if (own.empty()) return;
    all.insert(all.end(), own.begin(), own.end());
  }
  violations.insert(violations.end(), all.begin(), all.end());
}

inline void check_number(const nlohmann::json& schema, const io::Node& node,
                         std::vector<std::string>& violations) {
  const double value =
      schema["type"] == "integer" ? static_cast<double>(node.integer()) : node.number();
  const bool low = schema.contains("minimum") && value < schema["minimum"].get<double>();
  const bool high = schema.contains("maximum") && value > schema["maximum"].get<double>();
  const bool at_low =
      schema.contains("exclusiveMinimum") && value <= schema["exclusiveMinimum"].get<double>();
  const bool at_high =
      schema.contains("exclusiveMaximum") && value >= schema["exclusiveMaximum"].get<double>();
  if (low || high || at_low || at_high) violations.push_back(node.path() + ": out of range");
}

inline void check_schema(const nlohmann::json& schema, const io::Node& node,
                         std::vector<std::string>& violations) try {
  if (schema.contains("const") && node.text() != schema["const"].get<std::string>()) {
    violations.push_back(node.path() + ": not " + schema["const"].get<std::string>());
  }
  if (schema.contains("enum")) {
    const auto& names = schema["enum"];
    const bool known = std::find(names.begin(), names.end(), node.text()) != names.end();
    if (!known) violations.push_back(node.path() + ": not in the enumeration");
  }
  if (schema.contains("oneOf")) check_alternatives(schema["oneOf"], node, violations);
  const std::string type = schema.value("type", "");
  if (type == "object") check_object(schema, node, violations);
  if (type == "integer" || type == "number") check_number(schema, node, violations);
  if (type == "boolean") static_cast<void>(node.boolean());
  if (type == "string") static_cast<void>(node.text());
  if (type == "array") {
    for (const io::Node& item : node.items()) check_schema(schema["items"], item, violations);
  }
} catch (const InputError& error) {
  violations.push_back(error.formatted());
}

[[nodiscard]] inline std::vector<std::string> schema_violations(const nlohmann::json& schema,
                                                                const io::Node& node) {
  std::vector<std::string> violations;
  check_schema(schema, node, violations);
  return violations;
}

}  // namespace plansearch::test
