// SPDX-License-Identifier: Apache-2.0
// JSON, YAML and TOML of a list of keys whose names are paths.
#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <string>

#include "exporters/export_plan.hpp"
#include "exporters/exporter.hpp"

namespace plansearch::exporters {
namespace {

/// Names and paths come from users; bytes that are not UTF-8 are replaced.
std::string json_text(const Value& value, int indent = -1) {
  return value.dump(indent, ' ', false, Value::error_handler_t::replace);
}

/// "a.b" becomes {"a": {"b": ...}}.
Value nested(const Entries& entries) {
  Value root = Value::object();
  for (const Entry& entry : entries) {
    Value* place = &root;
    std::string_view path = entry.name;
    while (!path.empty()) {
      const std::string_view word = path.substr(0, path.find('.'));
      place = &(*place)[std::string(word)];
      path.remove_prefix(std::min(path.size(), word.size() + 1));
    }
    *place = entry.value;
  }
  return root;
}

/// YAML 1.1 readers take a number for one only with a point in it.
std::string yaml_number(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find('.') != std::string::npos) return text;
  const auto exponent = text.find('e');
  return exponent == std::string::npos ? text + ".0" : text.insert(exponent, ".0");
}

void emit(YAML::Emitter& out, const Value& value) {
  if (value.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, member] : value.items()) {
      out << YAML::Key << key << YAML::Value;
      emit(out, member);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    out << YAML::BeginSeq;
    for (const Value& item : value) emit(out, item);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    // Quoted always: on, 1e5 and null are strings here.
    out << YAML::DoubleQuoted << value.get<std::string>();
  } else if (value.is_boolean()) {
    out << value.get<bool>();
  } else if (value.is_number_float()) {
    out << yaml_number(value.get<double>());
  } else if (value.is_number()) {
    out << value.get<std::int64_t>();
  } else {
    out << YAML::Null;
  }
}

}  // namespace

/// JSON has no comments: the header is a member that readers pass over.
std::string write_json(const std::vector<std::string>& header, const Entries& entries) {
  Value root = Value::object();
  root["plansearch"] = header;
  root.update(nested(entries));
  return json_text(root, 2) + "\n";
}

std::string write_yaml(const std::vector<std::string>& header, const Entries& entries) {
  YAML::Emitter out;
  emit(out, nested(entries));
  return fmt::format("{}{}\n", shell_comments(header), out.c_str());
}

/// Strings, numbers, booleans and arrays of TOML are written as in JSON.
std::string write_toml(const std::vector<std::string>& header, const Entries& entries) {
  std::string text = shell_comments(header);
  std::string section;
  for (const Entry& entry : entries) {
    const auto dot = entry.name.rfind('.');
    const std::string own = entry.name.substr(0, dot);
    if (own != section) text += fmt::format("\n[{}]\n", own);
    section = own;
    text += fmt::format("{} = {}\n", entry.name.substr(dot + 1), json_text(entry.value));
  }
  return text;
}

}  // namespace plansearch::exporters
