// SPDX-License-Identifier: Apache-2.0
#include "io/family_file.hpp"

#include <fmt/format.h>

namespace plansearch::io {
namespace {

void flatten(const Node& map, const std::string& prefix, std::map<std::string, Node>& flat) {
  for (const Node::Entry& entry : map.entries()) {
    const std::string key = prefix.empty() ? entry.key : fmt::format("{}.{}", prefix, entry.key);
    flat.emplace(key, entry.value);
    if (entry.value.is_map()) flatten(entry.value, key, flat);
  }
}

std::optional<Node> unless_null(const Node& node) {
  return node.is_null() ? std::nullopt : std::optional(node);
}

}  // namespace

HfKeys::HfKeys(Node config, std::optional<Node> defaults) : config_(std::move(config)) {
  flatten(config_, "", written_);
  if (defaults) {
    for (const Node::Entry& entry : defaults->entries()) defaults_.emplace(entry.key, entry.value);
  }
}

std::optional<Node> HfKeys::find(const std::vector<std::string>& spellings) const {
  for (const std::string& key : spellings) {
    if (const auto found = written_.find(key); found != written_.end()) {
      return unless_null(found->second);
    }
  }
  for (const std::string& key : spellings) {
    if (const auto found = defaults_.find(key); found != defaults_.end()) {
      return unless_null(found->second);
    }
  }
  return std::nullopt;
}

std::optional<Node> HfKeys::find(const std::string& key) const {
  return find(std::vector<std::string>{key});
}

void HfKeys::replace(const std::string& key, const Node& value) {
  written_.insert_or_assign(key, value);
}

}  // namespace plansearch::io
