// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/document.hpp"
#include "io/document/raw_value.hpp"

namespace plansearch::io {
namespace {

std::string_view kind_text(RawKind kind) {
  switch (kind) {
    case RawKind::Null:
      return "nothing";
    case RawKind::Plain:
    case RawKind::Quoted:
      return "a single value";
    case RawKind::List:
      return "a list";
    case RawKind::Map:
      return "a map";
  }
  return "a value";
}

/// Long values are quoted in messages up to a point.
std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 40;
  return printable(text, kShown);
}

std::string join_path(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

void note_asked(const RawValue& map, std::string_view key) {
  if (!contains(map.asked, key)) map.asked.emplace_back(key);
}

void mark_all(const RawValue& value) {
  value.all_asked = true;
  for (const RawValue& item : value.items) mark_all(item);
  for (const RawEntry& entry : value.entries) mark_all(entry.value);
}

/// Whether an unread key resembles the missing one; it is a misspelling then, not an unknown key.
std::string misspelled_hint(const RawValue& map, std::string_view missing) {
  std::vector<std::string> unused;
  for (const RawEntry& entry : map.entries) {
    const bool asked = contains(map.asked, entry.key);
    if (!asked) unused.push_back(entry.key);
  }
  const std::vector<std::string> near = nearest_names(missing, unused, 1);
  if (near.empty()) return {};
  note_asked(map, near.front());
  return fmt::format("is '{}' meant to be it?", near.front());
}

void throw_or_add(const RawValue& root, InputError error) {
  if (root.errors == nullptr) throw std::move(error);
  root.errors->push_back(std::move(error));
}

void require_all_asked(const RawValue& root, const RawValue& value) {
  // A map that was never read as one has an error of its own.
  if (root.errors != nullptr && value.asked.empty() && !value.all_asked && value.items.empty()) {
    return;
  }
  for (const RawEntry& entry : value.entries) {
    const bool asked = value.all_asked || contains(value.asked, entry.key);
    if (!asked) {
      std::string hint = did_you_mean(entry.key, value.asked);
      if (hint.empty()) hint = fmt::format("known keys: {}", fmt::join(value.asked, ", "));
      // A key that `--set` added stands there, not in the file.
      const bool set = entry.line == 0 && entry.value.file != nullptr;
      const std::string& file = set ? *entry.value.file : *value.file;
      throw_or_add(root, InputError({file, entry.line, entry.column},
                                    fmt::format("unknown key '{}'", excerpt(entry.key)), hint));
      continue;
    }
    require_all_asked(root, entry.value);
  }
  for (const RawValue& item : value.items) require_all_asked(root, item);
}

const RawValue& stand_in_value() {
  static const RawValue kStandIn;
  return kStandIn;
}

}  // namespace

Node::Node(std::shared_ptr<const RawValue> root, const RawValue* value, std::string path)
    : root_(std::move(root)), value_(value), path_(std::move(path)) {}

Node Node::child(const RawValue& value, std::string path) const {
  return {root_, &value, std::move(path)};
}

bool Node::is_null() const {
  return value_->kind == RawKind::Null;
}
bool Node::is_list() const {
  return value_->kind == RawKind::List;
}
bool Node::is_map() const {
  return value_->kind == RawKind::Map;
}
bool Node::is_scalar() const {
  return value_->kind == RawKind::Plain || value_->kind == RawKind::Quoted;
}

SourceLocation Node::where() const {
  const auto& file = value_->file != nullptr ? value_->file : root_->file;
  return {*file, value_->line, value_->column};
}

std::string Node::path() const {
  return path_;
}

Node Node::stand_in(std::string path) const {
  return child(stand_in_value(), std::move(path));
}

bool Node::is_stand_in() const {
  return value_ == &stand_in_value();
}

void Node::fail(const std::string& message, std::string hint) const {
  const std::string& name = value_->called.empty() ? path_ : value_->called;
  throw InputError(where(), name.empty() ? message : fmt::format("{}: {}", name, message),
                   std::move(hint));
}

void Node::report(const std::string& message, std::string hint) const {
  if (is_stand_in()) return;
  try {
    fail(message, std::move(hint));
  } catch (const InputError& error) {
    throw_or_add(*root_, error);
  }
}

Node Node::at(std::string_view key) const {
  const std::optional<Node> found = find(key);
  if (found) return *found;
  const RawValue* value = value_under(*value_, key);
  if (value != nullptr) {
    child(*value, join_path(path_, key)).report("has no value");
  } else if (is_map()) {
    report(fmt::format("key '{}' is missing", key), misspelled_hint(*value_, key));
  }
  return stand_in(join_path(path_, key));
}

std::optional<Node> Node::find(std::string_view key) const {
  if (!is_map()) {
    report(fmt::format("expected a map with key '{}', found {}", key, kind_text(value_->kind)));
    return std::nullopt;
  }
  note_asked(*value_, key);
  const RawValue* value = value_under(*value_, key);
  if (value == nullptr || value->kind == RawKind::Null) return std::nullopt;
  return child(*value, join_path(path_, key));
}

std::vector<Node::Entry> Node::entries() const {
  if (!is_map()) {
    report(fmt::format("expected a map, found {}", kind_text(value_->kind)));
    return {};
  }
  value_->all_asked = true;
  std::vector<Entry> result;
  result.reserve(value_->entries.size());
  for (const RawEntry& entry : value_->entries) {
    SourceLocation place = where();
    if (entry.line == 0 && entry.value.file != nullptr) place.file = *entry.value.file;
    place.line = entry.line;
    place.column = entry.column;
    result.push_back(
        {entry.key, std::move(place), child(entry.value, join_path(path_, entry.key))});
  }
  return result;
}

void Node::finish() const {
  require_all_asked(*root_, *value_);
}

void Node::ignore() const {
  mark_all(*value_);
}

std::vector<Node> Node::items() const {
  if (!is_list()) {
    report(fmt::format("expected a list, found {}", kind_text(value_->kind)));
    return {};
  }
  return transformed(value_->items, [&, i = 0](const RawValue& item) mutable {
    return child(item, fmt::format("{}[{}]", path_, i++));
  });
}

std::vector<std::string> Node::texts() const {
  return transformed(items(), [&](const Node& item) { return item.text(); });
}

std::optional<std::string_view> Node::plain_scalar(std::string_view expected) const {
  if (!is_scalar()) {
    report(fmt::format("expected {}, found {}", expected, kind_text(value_->kind)));
    return std::nullopt;
  }
  if (value_->kind == RawKind::Quoted) {
    report(fmt::format("expected {}, found the text '{}'", expected, excerpt(value_->text)),
           "remove the quotes");
    return std::nullopt;
  }
  return value_->text;
}

std::optional<std::string> Node::known_text() const {
  if (!is_scalar()) {
    report(fmt::format("expected a text, found {}", kind_text(value_->kind)));
    return std::nullopt;
  }
  if (find_control(value_->text) != std::string::npos) {
    report(fmt::format("'{}' holds a control character", excerpt(value_->text)),
           "write it as text");
    return std::nullopt;
  }
  return value_->text;
}

std::string Node::text() const {
  return known_text().value_or(std::string());
}

std::string Node::name() const {
  const std::string name = text();
  if (name.find_first_of("\t\n\r") != std::string::npos) {
    report(fmt::format("'{}' goes over several lines", excerpt(name)), "a name is one line");
  }
  return name;
}

// Values that are wrong and collected count as one: the least surprising of numbers to go on with.

double Node::number() const {
  const auto text = plain_scalar("a number");
  if (!text) return 1.0;
  if (const auto parsed = parse_number(*text)) return *parsed;
  report(fmt::format("'{}' is not a number from 1e-30 to 1e30", excerpt(*text)));
  return 1.0;
}

double Node::positive_number() const {
  const double parsed = number();
  if (parsed > 0.0) return parsed;
  report(fmt::format("{} must be above zero", parsed));
  return 1.0;
}

bool Node::boolean() const {
  const auto text = plain_scalar("true or false");
  if (!text) return false;
  const bool holds = *text == "true" || *text == "True";
  if (!holds && *text != "false" && *text != "False") {
    report(fmt::format("'{}' is neither true nor false", excerpt(*text)));
  }
  return holds;
}

std::int64_t Node::integer(IntegerRange range) const {
  const std::int64_t otherwise = std::clamp<std::int64_t>(1, range.low, range.high);
  const auto text = plain_scalar("a whole number");
  if (!text) return otherwise;
  std::int64_t parsed = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), parsed);
  const auto wrong = [&](const std::string& message) {
    report(message);
    return otherwise;
  };
  if (error == std::errc::result_out_of_range) {
    return wrong(fmt::format("{} is out of range", excerpt(*text)));
  }
  if (error != std::errc() || end != text->data() + text->size()) {
    return wrong(fmt::format("'{}' is not a whole number", excerpt(*text)));
  }
  if (parsed < range.low) {
    return wrong(fmt::format("{} is below the least value {}", parsed, range.low));
  }
  if (parsed > range.high)
    return wrong(fmt::format("{} is above the limit {}", parsed, range.high));
  return parsed;
}

int Node::count(int low, int high) const {
  return static_cast<int>(integer({low, high}));
}

void Node::report_quantity(std::string_view text, std::string_view expected) const {
  const std::string hint = fmt::format("expected {}", expected);
  if (parse_number(text)) {
    report(fmt::format("missing unit after {}", text), hint);
  } else {
    report(fmt::format("'{}' is not understood", excerpt(text)), hint);
  }
}

void Node::report_choice(const std::vector<std::string>& names) const {
  std::string hint = did_you_mean(value_->text, names);
  if (hint.empty()) hint = fmt::format("one of {}", fmt::join(names, ", "));
  report(fmt::format("unknown value '{}'", excerpt(value_->text)), hint);
}

void require_schema(const Node& root, std::string_view schema, std::string_view what) {
  const Node key = root.at("schema");
  if (key.text() == schema) return;
  key.fail(fmt::format("'{}' is not {}", key.text(), what),
           fmt::format("write schema: {}", schema));
}

Document::Collecting::Collecting(const RawValue& root, std::vector<InputError>& errors)
    : root_(root) {
  root_.errors = &errors;
}

Document::Collecting::~Collecting() {
  root_.errors = nullptr;
}

}  // namespace plansearch::io
