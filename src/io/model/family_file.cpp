// SPDX-License-Identifier: Apache-2.0
#include "io/model/family_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/raw_value.hpp"

namespace plansearch::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFamilySchema = "plansearch/family/v1";
constexpr int kMaxLikeDepth = 8;
constexpr std::array<std::string_view, 11> kKeys = {
    "schema",  "source", "like",  "architectures", "defaults", "only",
    "ignored", "model",  "graph", "dims",          "copies"};

/// `over` on top of `base`: sections key by key, lists of ignored keys one after the other, any
/// other value in place of the base's.
RawValue merged(RawValue base, const RawValue& over, std::string_view name) {
  if (name == "ignored" && base.kind == RawKind::List && over.kind == RawKind::List) {
    base.items.insert(base.items.end(), over.items.begin(), over.items.end());
    return base;
  }
  const bool sections = base.kind == RawKind::Map && over.kind == RawKind::Map;
  if (!sections || is_rule(base) || is_rule(over)) return over;
  for (const RawEntry& entry : over.entries) {
    if (RawValue* inherited = value_under(base, entry.key)) {
      *inherited = merged(std::move(*inherited), entry.value, entry.key);
    } else {
      base.entries.push_back(entry);
    }
  }
  return base;
}

/// Only letters, digits, '-', '_' and '.': a model_type is not a path.
bool is_plain_name(std::string_view name) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.front() != '.' && std::ranges::all_of(name, plain);
}

fs::path file_of(const fs::path& directory, std::string_view name) {
  return directory / fmt::format("{}.yaml", name);
}

RawValue read_chain(const fs::path& directory, const fs::path& path, int depth) {
  const Document document = Document::read(path);
  const Node root = document.root();
  require_schema(root, kFamilySchema, "a family file");
  for (const Node::Entry& entry : root.entries()) {
    if (contains(kKeys, entry.key)) continue;
    throw InputError(entry.where, fmt::format("unknown key '{}'", entry.key),
                     fmt::format("known keys: {}", fmt::join(kKeys, ", ")));
  }
  RawValue own = root.raw();
  // A graph lies beside the file that names it, whichever is like it.
  if (RawValue* graph = value_under(own, "graph")) {
    graph->text = (path.parent_path() / root.at("graph").text()).lexically_normal().string();
  }
  const auto like = root.find("like");
  if (!like) return own;
  const std::string name = like->text();
  std::error_code error;
  if (!is_plain_name(name) || !fs::exists(file_of(directory, name), error)) {
    like->fail(fmt::format("there is no family file '{}.yaml'", name));
  }
  if (depth >= kMaxLikeDepth) like->fail("`like` refers back to itself");
  return merged(read_chain(directory, file_of(directory, name), depth + 1), own, "");
}

/// Reasons of one kind why something that is known is not read.
std::map<std::string, std::string> reasons_of(std::string_view kind, const fs::path& directory) {
  const fs::path path = file_of(directory, "_unsupported");
  std::map<std::string, std::string> reasons;
  std::error_code error;
  if (!fs::exists(path, error)) return reasons;
  const Document document = Document::read(path);
  for (const Node::Entry& entry : document.root().at(kind).entries()) {
    reasons.emplace(entry.key, entry.value.text());
  }
  return reasons;
}

/// Why a family is known and yet not read, where the directory says so.
std::string reason_against(const std::string& model_type, const fs::path& directory) {
  const auto reasons = reasons_of("families", directory);
  const auto reason = reasons.find(model_type);
  return reason == reasons.end() ? std::string() : ": " + reason->second;
}

[[noreturn]] void refuse_class(const Node& type, const std::string& guess) {
  type.fail(
      fmt::format("no family describes the class '{}'", type.text()),
      fmt::format("{}torch.export.export writes the module as a .pt2 file, which --model takes "
                  "(docs/imports.md); --family FILE names a file that describes the class "
                  "(docs/models.md)",
                  guess.empty() ? "" : guess + " "));
}

/// A class without a head of its own.
constexpr std::string_view kBare = "Model";

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

std::string require_described(const Node& classes, const Node& rules, const fs::path& directory) {
  const auto described = rules.find("architectures");
  if (!described || classes.is_null()) return {};
  // Reasons by ending; empty: described.
  std::map<std::string, std::string> endings = reasons_of("architectures", directory);
  std::vector<std::string> known;
  for (const Node& ending : described->items()) {
    known.push_back(ending.text());
    endings[known.back()].clear();
  }
  endings.emplace(kBare, kBare);
  std::string bare;
  std::optional<std::string> refused;
  for (const Node& item : classes.items()) {
    const std::string name = item.text();
    const std::string* longest = nullptr;
    std::size_t length = 0;
    for (const auto& [ending, reason] : endings) {
      if (!name.ends_with(ending) || ending.size() < length) continue;
      length = ending.size();
      longest = &reason;
    }
    if (longest != nullptr && longest->empty()) return {};
    if (longest != nullptr && *longest == kBare) bare = name;
    if (!refused) refused = longest != nullptr ? *longest : "no file says what it ends in";
  }
  if (!bare.empty() || !refused) return bare;
  classes.items().front().fail(
      fmt::format("{} is not described: {}", classes.items().front().text(), *refused),
      fmt::format("this family describes classes that end in {}", fmt::join(known, ", ")));
}

std::vector<std::string> known_families(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() == ".yaml" && !name.starts_with('_')) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

Document read_family_file(const fs::path& file, const fs::path& directory) {
  return Document::made(read_chain(directory, file, 0), 0, file.string());
}

Document read_family(const std::string& model_type, const fs::path& directory, const Node& type) {
  const fs::path path = file_of(directory, model_type);
  std::error_code error;
  const bool named = is_plain_name(model_type) && !model_type.starts_with('_');
  if (!named || !fs::exists(path, error)) {
    const std::vector<std::string> known = known_families(directory);
    const std::string guess = did_you_mean(model_type, known);
    if (type.path() == kClassName) refuse_class(type, guess);
    type.fail(fmt::format("model family '{}' is not supported{}", model_type,
                          named ? reason_against(model_type, directory) : std::string()),
              fmt::format("{}docs/models.md lists the {} families, and how to describe another",
                          guess.empty() ? "" : guess + " ", known.size()));
  }
  return read_family_file(path, directory);
}

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
