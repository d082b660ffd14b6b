// SPDX-License-Identifier: Apache-2.0
#include "io/document/overlay.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/hash.hpp"
#include "base/names.hpp"
#include "io/document/raw_value.hpp"

namespace plansearch::io {
namespace {

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
  map.line = map.column = 0;
  map.file = file;
  return map;
}

RawEntry* entry_of(RawValue& map, const std::string& key) {
  const auto found = std::find_if(map.entries.begin(), map.entries.end(),
                                  [&](const RawEntry& entry) { return entry.key == key; });
  return found == map.entries.end() ? nullptr : &*found;
}

RawValue& item_of(RawValue& list, const std::string& key, const Override& one) {
  std::vector<std::string> names;
  for (RawValue& item : list.items) {
    const RawEntry* name = entry_of(item, "name");
    if (name == nullptr) continue;
    if (canonical_name(name->value.text) == canonical_name(key)) return item;
    names.push_back(name->value.text);
  }
  std::size_t index = 0;
  const char* end = key.data() + key.size();
  const auto [stop, error] = std::from_chars(key.data(), end, index);
  const bool number = error == std::errc() && stop == end;
  if (number && index < list.items.size()) return list.items[index];
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
  if (RawEntry* known = entry_of(value, key)) return known->value;
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

}  // namespace

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
