// SPDX-License-Identifier: Apache-2.0
#include "io/document/document.hpp"
#include "base/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mutex>
#include <unordered_map>

#include "base/hash.hpp"
#include "base/names.hpp"
#include "base/utf8.hpp"
#include "io/document/raw_value.hpp"

namespace plansearch::io {
namespace {

/// Refuses what cannot be text: NUL and other control bytes, broken UTF-8.
void require_text(std::string_view text, const std::string& file) {
  int line = 1;
  std::size_t line_start = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    const auto c = static_cast<unsigned char>(text[i]);
    const bool control = c < 0x20 && c != '\n' && c != '\t' && c != '\r';
    if (length == 0 || control) {
      throw InputError({file, line, static_cast<int>(i - line_start) + 1},
                       fmt::format("byte 0x{:02x} does not belong in a text file", c),
                       "YAML or JSON in UTF-8 is expected; is this the right file?");
    }
    if (c == '\n') {
      ++line;
      line_start = i + 1;
    }
    i += length;
  }
}

/// The extension decides; without one (standard input, pipes) the first character.
Syntax syntax_of(const std::filesystem::path& path, std::string_view text) {
  if (path.has_extension()) return path.extension() == ".json" ? Syntax::Json : Syntax::Yaml;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && text[first] == '{' ? Syntax::Json : Syntax::Yaml;
}

constexpr std::string_view kPlace = "--set ";

using File = std::shared_ptr<const std::string>;

/// Every part of the value is at the place of the option.
void move_to(RawValue& value, const File& file) {
  value.file = file;
  value.line = value.column = 0;
  for (RawValue& item : value.items) move_to(item, file);
  for (RawEntry& entry : value.entries) {
    entry.line = entry.column = 0;
    move_to(entry.value, file);
  }
}

RawValue parse_value(const Override& one, const File& file) {
  try {
    RawValue value = parse_yaml(one.value, file, {});
    move_to(value, file);
    return value;
  } catch (const InputError& error) {
    throw InputError({one.typed, 0, 0}, error.what(), error.hint());
  }
}

RawValue map_at(const File& file) {
  RawValue map;
  map.kind = RawKind::Map;
  move_to(map, file);
  return map;
}

RawValue& item_of(RawValue& list, const std::string& key, const Override& one) {
  std::vector<std::string> names;
  for (RawValue& item : list.items) {
    const RawValue* name = value_under(item, "name");
    if (name == nullptr) continue;
    if (canonical_name(name->text) == canonical_name(key)) return item;
    names.push_back(name->text);
  }
  const auto index = parse_as<std::size_t>(key);
  if (index && *index < list.items.size()) return list.items[*index];
  std::string hint = did_you_mean(key, names);
  if (hint.empty() && !names.empty()) hint = fmt::format("there are {}", fmt::join(names, ", "));
  if (hint.empty()) hint = fmt::format("items are numbered from 0 to {}", list.items.size() - 1);
  throw InputError({one.typed, 0, 0}, fmt::format("no '{}' in this list", key), hint);
}

/// The place below `value` that a key names; made where there is none.
RawValue& step_into(RawValue& value, const std::string& key, const Override& one,
                    const File& file) {
  if (value.kind == RawKind::List && !value.items.empty()) return item_of(value, key, one);
  if (value.kind == RawKind::List || value.kind == RawKind::Null) value = map_at(file);
  if (value.kind != RawKind::Map) {  // the name of another file
    RawValue map = map_at(file);
    map.entries.push_back({"like", 0, 0, std::move(value)});
    value = std::move(map);
  }
  if (RawValue* known = value_under(value, key)) return *known;
  RawValue none;
  none.file = file;
  value.entries.push_back({key, 0, 0, std::move(none)});
  return value.entries.back().value;
}

void lay(RawValue& root, const Override& one) {
  const auto file = std::make_shared<const std::string>(one.typed);
  RawValue* place = &root;
  for (const std::string& key : one.path) place = &step_into(*place, key, one, file);
  *place = parse_value(one, file);
}

/// Short files as they were parsed, for commands that ask many questions. A reader marks the keys that it has
/// asked for, so each gets a copy.
class KnownFiles {
 public:
  static constexpr std::size_t kLongest = 1U << 16U;  // bytes

  [[nodiscard]] Document get(const std::string& path, std::string text, Syntax syntax) {
    const std::lock_guard lock(mutex_);
    auto known = files_.find(path);
    if (known == files_.end() || known->second.text != text) {
      Document document = Document::parse(text, path, syntax);
      bytes_ += text.size();
      if (bytes_ > kMost) {
        files_.clear();
        bytes_ = text.size();
      }
      known = files_.insert_or_assign(path, Known{std::move(text), std::move(document)}).first;
    }
    const Document& parsed = known->second.document;
    return Document::made(parsed.raw(), parsed.hash(), path);
  }

 private:
  static constexpr std::size_t kMost = 1U
                                       << 22U;  // bytes of text; their trees take 20 times as much
  struct Known {
    std::string text;
    Document document;
  };
  std::mutex mutex_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, Known> files_;
};

}  // namespace

Document::Document(std::shared_ptr<const RawValue> root, std::uint64_t hash, std::string file)
    : root_(std::move(root)), hash_(hash), file_(std::move(file)) {}

Document Document::read(const std::filesystem::path& path, const ParseLimits& limits) {
  std::string text = read_file(path, limits.size);
  const Syntax syntax = syntax_of(path, text);
  const ParseLimits usual;
  const bool bounded = limits.values < usual.values || limits.depth < usual.depth;
  if (bounded || text.size() > KnownFiles::kLongest)
    return parse(text, path.string(), syntax, limits);
  static KnownFiles known;
  return known.get(path.string(), std::move(text), syntax);
}

Document Document::parse(std::string_view text, std::string file_name, Syntax syntax,
                         const ParseLimits& limits) {
  require_text(text, file_name);
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark) {
    text.remove_prefix(kByteOrderMark.size());
  }
  const auto file = std::make_shared<const std::string>(file_name);
  RawValue value =
      syntax == Syntax::Json ? parse_json(text, file, limits) : parse_yaml(text, file, limits);
  return {std::make_shared<const RawValue>(std::move(value)), content_hash(text),
          std::move(file_name)};
}

Document Document::made(RawValue root, std::uint64_t hash, std::string file_name) {
  return {std::make_shared<const RawValue>(std::move(root)), hash, std::move(file_name)};
}

Node Document::root() const {
  return {root_, root_.get(), ""};
}

std::filesystem::path Document::directory() const {
  return std::filesystem::path(file_).parent_path();
}

Document overlaid(const Document& document, std::span<const Override> overrides) {
  if (overrides.empty()) return document;
  RawValue root = document.raw();
  std::uint64_t hash = document.hash();
  for (const Override& one : overrides) {
    lay(root, one);
    hash = combine_hashes(hash, content_hash(one.typed));
  }
  return Document::made(std::move(root), hash, document.file());
}

bool is_set_place(const SourceLocation& where) {
  return where.file.starts_with(kPlace);
}

}  // namespace plansearch::io
