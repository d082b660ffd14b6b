// SPDX-License-Identifier: Apache-2.0
#include "exporters/spelling.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"

namespace plansearch::exporters {
namespace {

constexpr std::string_view kTrue = "true";
constexpr std::string_view kFalse = "false";

std::string spelled_text(const Value& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// "true" and "false", as words or as booleans.
bool is_switch(const Value& value) {
  if (value.is_boolean()) return true;
  if (!value.is_string()) return false;
  const std::string word = canonical_name(value.get<std::string>());
  return word == kTrue || word == kFalse;
}

bool same(const Value& word, const Value& value) {
  if (word.is_null() || value.is_null()) return false;
  if (is_switch(word) && is_switch(value)) return is_on(word) == is_on(value);
  return spelled_text(word) == spelled_text(value);
}

const Value* find_word(const Spelling& spelling, std::string_view value) {
  const auto found =
      std::ranges::find_if(spelling.words, [&](const auto& word) { return word.first == value; });
  return found == spelling.words.end() ? nullptr : &found->second;
}

/// The value of the fact that a word stands for; switches as booleans.
Value meant(const std::string& value) {
  return value == kTrue || value == kFalse ? Value(value == kTrue) : Value(value);
}

/// A switch by words of which the file has none: off, or as its other word is on or off.
bool switch_in(const Value* on, const Value* off, const Value& value) {
  if (on != nullptr && is_switch(*on)) return is_on(value) == is_on(*on);
  return off != nullptr && is_switch(*off) && is_on(value) != is_on(*off);
}

std::string joined_words(const Value& words) {
  std::vector<std::string> texts;
  for (const Value& word : words) texts.push_back(spelled_text(word));
  return fmt::format("{}", fmt::join(texts, ","));
}

/// The words of "[a,b]" and "a, b".
Value list_in(const Value& value) {
  if (!value.is_string()) return value;
  std::string text = value.get<std::string>();
  std::erase_if(
      text, [](char c) { return std::string_view("[]'\" ").find(c) != std::string_view::npos; });
  Value list = Value::array();
  for (const std::string& word : words_of(text, ",")) list.push_back(word);
  return list;
}

[[noreturn]] void refuse_word(const Spelling& spelling, const Value& value) {
  std::vector<std::string> known;
  for (const auto& [own, word] : spelling.words)
    if (!word.is_null()) known.push_back(spelled_text(word));
  const std::string last = known.back();
  known.pop_back();
  throw WrongValue(
      fmt::format("'{}' is not {} or {}", spelled_text(value), fmt::join(known, ", "), last));
}

}  // namespace

Value spelled(const Fact& fact, const Spelling& spelling, const ExportRequest& request) {
  Value value = fact.write ? fact.write(request) : Value();
  if (value.is_null()) return spelling.otherwise;
  if (const Value* word = find_word(spelling, spelled_text(value))) return *word;
  if (value.is_boolean()) {
    if (!spelling.words.empty()) return spelling.otherwise;
    return value.get<bool>() ? spelling.on : spelling.off;
  }
  if (value.is_array() && !spelling.list.empty()) {
    const std::string text = joined_words(value);
    return Value(spelling.list == "brackets" ? fmt::format("[{}]", text) : text);
  }
  return fact.free_text && spelling.hydra ? hydra_text(spelled_text(value)) : value;
}

void read_spelled(const Fact& fact, const Spelling& spelling, Reading& reading,
                  const Value& value) {
  Value found = spelling.list.empty() ? value : list_in(value);
  const auto stands = [&](const auto& word) { return same(word.second, value); };
  auto word = std::ranges::find_if(spelling.words, stands);
  bool known = word != spelling.words.end();
  if (!known) {
    word = std::ranges::find_if(spelling.read_as, stands);
    known = word != spelling.read_as.end();
  }
  const Value* on = find_word(spelling, kTrue);
  const Value* off = find_word(spelling, kFalse);
  if (known) {
    found = meant(word->first);
  } else if (spelling.left_open && is_left_open(value)) {
    reading.left_open.insert(fact.name);
    return;
  } else if (on != nullptr || off != nullptr) {
    found = Value(switch_in(on, off, value));
  } else if (fact.closed && !spelling.words.empty()) {
    refuse_word(spelling, value);
  }
  reading.facts[fact.name] = found;
  if (fact.read) fact.read(reading, found);
}

Key key_of(std::string_view name, const Fact& fact, Spelling spelling) {
  Key key;
  key.name = name;
  key.says = fact.says;
  const auto shared = std::make_shared<const Spelling>(std::move(spelling));
  key.value = [&fact, shared](const ExportRequest& h) { return spelled(fact, *shared, h); };
  key.read = [&fact, shared](Reading& r, const Value& v) { read_spelled(fact, *shared, r, v); };
  return key;
}

Key key_of(std::string_view name, std::string_view fact, std::vector<Setting> says) {
  Key key = key_of(name, *find_fact(fact), Spelling{.off = Value(false)});
  if (!says.empty()) key.says = std::move(says);
  return key;
}

}  // namespace plansearch::exporters
