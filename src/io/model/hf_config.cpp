// SPDX-License-Identifier: Apache-2.0
#include "io/model/hf_config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "io/document/raw_value.hpp"
#include "io/model/family_file.hpp"
#include "io/model/model_sections.hpp"

namespace plansearch::io {
namespace {

std::string name_of(const Node& root, const std::string& fallback) {
  const std::optional<Node> named = root.find("_name_or_path");
  if (!named.has_value() || !named->is_scalar()) return fallback;
  const std::string path = named->text();
  const std::string last = path.substr(path.find_last_of('/') + 1);
  return last.empty() ? fallback : last;
}

void add_text(RawValue& map, std::string key, std::string text) {
  RawValue value;
  value.kind = RawKind::Quoted;
  value.line = map.line;
  value.column = map.column;
  value.file = map.file;
  value.text = std::move(text);
  map.entries.push_back({std::move(key), map.line, map.column, std::move(value)});
}

/// Towers other than the text: maps called vision_config, audio_config and the like.
std::vector<std::string> other_parts(const Node& root) {
  std::vector<std::string> parts;
  for (const Node::Entry& entry : root.entries()) {
    for (const std::string_view part :
         {"vision", "audio", "speech", "video", "talker", "thinker"}) {
      const bool tower = entry.value.is_map() && entry.key.starts_with(part);
      if (tower && entry.key.ends_with("_config")) parts.push_back(entry.key);
    }
  }
  return parts;
}

}  // namespace

HfModel read_hf_config(const Node& root, const std::string& name,
                       const std::filesystem::path& families) {
  const std::optional<Node> inner = root.find("text_config");
  const Node& config = inner.has_value() ? *inner : root;
  const std::optional<Node> own_type = config.find("model_type");
  const Node type = own_type.has_value() ? *own_type : root.at("model_type");
  const std::string family = type.text();
  const Document document = read_family(family, families, type);
  const Node rules = document.root();

  HfModel read;
  if (const auto classes = root.find("architectures")) {
    const std::string bare = require_described(*classes, rules, families);
    if (!bare.empty()) read.passed_over.push_back("architectures " + bare + " (no head)");
  }
  HfKeys keys(config, rules.find("defaults"));
  if (inner.has_value()) {
    // transformers ties the head of a composite network by its outer configuration.
    if (const auto tied = root.find("tie_word_embeddings")) {
      keys.replace("tie_word_embeddings", *tied);
    }
  }
  RawValue sections = apply_family(rules, keys, family);
  add_text(sections, "name", name_of(root, name));
  add_text(sections, "source", fmt::format("Hugging Face configuration, model_type {}", family));
  const std::string file = root.where().file;
  const Document made = Document::made(std::move(sections), 0, file);

  read.model = read_sections(made.root());
  made.root().finish();
  read.model.training.assumed = true;
  read.left_out = other_parts(root);
  for (std::string& key : unknown_keys(rules, keys)) {
    const bool part =
        std::find(read.left_out.begin(), read.left_out.end(), key) != read.left_out.end();
    if (!part) read.passed_over.push_back(std::move(key));
  }
  return read;
}

}  // namespace plansearch::io
