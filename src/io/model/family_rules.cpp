// SPDX-License-Identifier: Apache-2.0
#include "base/ranges.hpp"
#include "io/model/family_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <set>

#include "base/units.hpp"
#include "io/document/raw_value.hpp"
#include "io/model/model_sections.hpp"

namespace plansearch::io {
namespace {

constexpr std::array<std::string_view, 8> kSources = {"key",     "field", "value",   "entries",
                                                      "letters", "each",  "members", "section"};
constexpr std::array<std::string_view, 12> kChanges = {
    "default",     "optional", "words", "plus", "times", "over",
    "multiple_of", "at_most",  "when",  "rule", "of",    "from"};
/// Keys of one item of a list, in the rules of `each`.
constexpr std::string_view kItem = "item.";
constexpr int kMaxDepth = 16;

std::vector<std::string> spellings(const Node& node) {
  if (node.is_scalar()) return {node.text()};
  std::vector<std::string> names = node.texts();
  if (names.empty()) node.fail("name at least one key");
  return names;
}

/// Compares texts, or numbers if both are ("1" and "1.0").
bool equal_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto x = parse_number(a);
  const auto y = parse_number(b);
  return x.has_value() && y.has_value() && *x == *y;
}

/// The same; "*b" expects the ending "b".
bool same_value(const std::string& a, const std::string& b) {
  return equal_value(a, b) || (b.starts_with('*') && a.ends_with(b.substr(1)));
}

bool matches(const std::optional<Node>& value, const Node& expected) {
  if (expected.is_list()) {
    const std::vector<Node> any = expected.items();
    return std::ranges::any_of(any, [&](const Node& e) { return matches(value, e); });
  }
  if (expected.is_null() || !value.has_value()) return expected.is_null() && !value.has_value();
  if (value->is_list()) {
    const std::vector<Node> items = value->items();
    return items.size() == 1 && matches(items.front(), expected);
  }
  return value->is_scalar() && same_value(value->text(), expected.text());
}

RawValue whole_number(std::int64_t number, const RawValue& place) {
  return value_at(place, RawKind::Plain, fmt::format("{}", number));
}

double number_of(const RawValue& value) {
  return Document::made(value, 0, *value.file).root().number();
}

std::int64_t integer_of(const RawValue& value) {
  return Document::made(value, 0, *value.file).root().integer(kZeroOrLength);
}

class Application {
 public:
  Application(const Node& model, const HfKeys& keys, const std::string& family)
      : model_(model), keys_(keys), family_(family) {}

  /// The rules of one item of a list: its keys are called `item.` and the key.
  Application(const Application& outer, const Node& item)
      : model_(outer.model_), keys_(outer.keys_), family_(outer.family_), item_(item) {}

  [[nodiscard]] RawValue section(const Node& rules) const {
    RawValue out = value_at(keys_.root().raw(), RawKind::Map);
    for (const Node::Entry& entry : rules.entries()) {
      const bool nested = entry.value.is_map() && !is_rule(entry.value.raw());
      std::optional<RawValue> made =
          nested ? std::optional(section(entry.value)) : value(entry.value, 0);
      if (!made.has_value() || (nested && made->entries.empty())) continue;
      out.entries.push_back({entry.key, made->line, made->column, std::move(*made)});
    }
    return out;
  }

  /// Keys that change the network and are understood at the listed values (or rules) alone.
  void require_understood(const Node& only) const {
    for (const Node::Entry& entry : only.entries()) {
      const auto written = keys_.written().find(entry.key);
      if (written == keys_.written().end() || written->second.is_null()) continue;
      const Node& found = written->second;
      if (found.is_list() && found.items().empty()) continue;
      std::vector<std::string> known;
      bool understood = false;
      for (const Node& item : entry.value.items()) {
        const std::optional<RawValue> expected = value(item, 0);
        known.push_back(expected ? expected->text : "null");
        understood = understood || (expected.has_value() && found.is_scalar() &&
                                    same_value(found.text(), expected->text));
      }
      if (understood) continue;
      found.fail(fmt::format("'{}' changes the network in a way that is not understood for {}",
                             found.is_scalar() ? found.text() : "this list or map", family_),
                 fmt::format("understood: {}; or describe the model yourself (docs/models.md)",
                             known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
    }
  }

 private:
  [[nodiscard]] std::optional<RawValue> value(const Node& rule, int depth) const {
    if (depth > kMaxDepth) rule.fail("refers back to itself");
    if (rule.is_null()) return std::nullopt;
    if (rule.is_scalar()) return rule.raw();
    if (rule.is_list()) return list_value(rule, depth);
    check_words(rule);
    for (const Node::Entry& entry : rule.entries())
      if (entry.key == "value" && entry.value.is_null()) return std::nullopt;
    const std::optional<RawValue> found = source(rule, depth);
    if (found.has_value()) return changed(rule, *found, depth);
    if (const auto fallback = rule.find("default")) return value(*fallback, depth + 1);
    if (const auto optional = rule.find("optional"); optional && optional->boolean()) {
      return std::nullopt;
    }
    missing(rule);
  }

  /// A list of maps are cases, the first whose condition holds counts; any other list is a value.
  [[nodiscard]] std::optional<RawValue> list_value(const Node& rule, int depth) const {
    const std::vector<Node> items = rule.items();
    const bool cases = std::ranges::any_of(items, &Node::is_map);
    if (!cases) return rule.raw();
    std::set<std::string> asked;
    for (const Node& item : items) {
      const std::optional<Node> when = item.is_map() ? item.find("when") : std::nullopt;
      if (!when.has_value() || holds(*when, asked)) return value(item, depth + 1);
    }
    keys_.root().fail(fmt::format("this combination of {} is not understood for {}",
                                  fmt::join(asked, ", "), family_),
                      "describe the model yourself (docs/models.md)");
  }

  [[nodiscard]] bool holds(const Node& when, std::set<std::string>& asked) const {
    bool all = true;
    for (const Node::Entry& entry : when.entries()) {
      asked.insert(entry.key);
      all = all && matches(find({entry.key}), entry.value);
    }
    return all;
  }

  [[nodiscard]] std::optional<RawValue> source(const Node& rule, int depth) const {
    if (const auto literal = rule.find("value")) return value(*literal, depth + 1);
    if (const auto field = rule.find("field")) return value(field_rule(*field), depth + 1);
    if (const auto key = rule.find("entries")) {
      const std::optional<Node> map = keys_.find(spellings(*key));
      if (!map.has_value()) return std::nullopt;
      const std::size_t count = map->is_list() ? map->items().size() : map->entries().size();
      return whole_number(static_cast<std::int64_t>(count), map->raw());
    }
    if (const auto rules = rule.find("section")) return section(*rules);
    if (const auto key = rule.find("letters")) return letters(*key);
    if (const auto key = rule.find("each")) return each(*key, rule.at("rule"), depth);
    if (const auto key = rule.find("members")) return members(*key, rule, depth);
    const auto key = rule.find("key");
    if (!key) return std::nullopt;
    const std::optional<Node> found = find(spellings(*key));
    if (!found.has_value()) return std::nullopt;
    RawValue read = found->raw();
    read.called = found->path();
    return read;
  }

  /// A key of the configuration, or of the item at hand.
  [[nodiscard]] std::optional<Node> find(const std::vector<std::string>& names) const {
    for (const std::string& name : names) {
      if (!item_ || !name.starts_with(kItem)) continue;
      std::optional<Node> at = *item_;
      std::size_t start = kItem.size();
      while (at && start <= name.size()) {
        const std::size_t dot = std::min(name.find('.', start), name.size());
        at = at->is_map() ? at->find(name.substr(start, dot - start)) : std::nullopt;
        start = dot + 1;
      }
      return at && at->is_null() ? std::nullopt : at;
    }
    return keys_.find(names);
  }

  [[nodiscard]] static RawValue list_at(const Node& place) {
    return value_at(place.raw(), RawKind::List);
  }
  [[nodiscard]] static RawValue word_at(const Node& place, std::string text) {
    return value_at(place.raw(), RawKind::Plain, std::move(text));
  }

  /// The letters of a text, one item each.
  [[nodiscard]] std::optional<RawValue> letters(const Node& key) const {
    const std::optional<Node> found = find(spellings(key));
    if (!found) return std::nullopt;
    RawValue list = list_at(*found);
    for (const char letter : found->text()) list.items.push_back(word_at(*found, {letter}));
    return list;
  }

  /// The results of a rule, item by item.
  [[nodiscard]] std::optional<RawValue> each(const Node& key, const Node& rule, int depth) const {
    const std::optional<Node> found = find(spellings(key));
    if (!found) return std::nullopt;
    RawValue list = list_at(*found);
    for (const Node& item : found->items()) {
      const Application inside(*this, item);
      if (auto made = inside.value(rule, depth + 1)) list.items.push_back(std::move(*made));
    }
    return list;
  }

  /// For every number below `of`, counted on from `from`: whether the list has it.
  [[nodiscard]] std::optional<RawValue> members(const Node& key, const Node& rule,
                                                int depth) const {
    const std::optional<Node> found = find(spellings(key));
    if (!found) return std::nullopt;
    std::int64_t from = 0;
    if (const auto first = rule.find("from")) from = first->integer(kSmallRange);
    const std::optional<RawValue> of = value(rule.at("of"), depth + 1);
    if (!of) rule.at("of").fail("has no value here");
    const std::int64_t count = std::min(integer_of(*of), kLayerRange.high);
    std::set<std::int64_t> named;
    for (const Node& item : found->is_list() ? found->items() : std::vector<Node>{*found})
      named.insert(item.integer(kLayerCount));
    RawValue list = list_at(*found);
    for (std::int64_t i = 0; i < count; ++i)
      list.items.push_back(word_at(*found, named.contains(i + from) ? "true" : "false"));
    return list;
  }

  /// The rule of another field of the model, "attention.heads".
  [[nodiscard]] Node field_rule(const Node& field) const {
    const std::string path = field.text();
    Node at = model_;
    std::size_t start = 0;
    while (start <= path.size()) {
      const std::size_t dot = std::min(path.find('.', start), path.size());
      const auto next = at.is_map() ? at.find(path.substr(start, dot - start)) : std::nullopt;
      if (!next) field.fail(fmt::format("the family has no field '{}'", path));
      at = *next;
      start = dot + 1;
    }
    return at;
  }

  [[nodiscard]] RawValue changed(const Node& rule, RawValue found, int depth) const {
    if (const auto words = rule.find("words")) {
      if (found.kind != RawKind::List) {
        found = translated(found, *words, rule);
      } else {
        for (RawValue& item : found.items) item = translated(item, *words, rule);
      }
    }
    const auto number = [&](const char* key) -> std::optional<std::int64_t> {
      const auto node = rule.find(key);
      if (!node) return std::nullopt;
      const std::optional<RawValue> raw = value(*node, depth + 1);
      if (!raw) node->fail("has no value here");
      return integer_of(*raw);
    };
    if (rule.find("times") || rule.find("over") || rule.find("multiple_of")) {
      double product = number_of(found);
      if (const auto factor = number("times")) product *= static_cast<double>(*factor);
      if (const auto divisor = number("over"))
        product /= static_cast<double>(std::max<std::int64_t>(1, *divisor));
      const auto step = static_cast<double>(number("multiple_of").value_or(1));
      const double whole = std::floor(product + 1e-9);
      product = step > 1.0 ? std::ceil(whole / step) * step : whole;
      if (std::abs(product) > static_cast<double>(kZeroOrLength.high)) rule.fail("is too large");
      found = whole_number(static_cast<std::int64_t>(product), found);
    }
    if (const auto offset = rule.find("plus")) {
      found = whole_number(integer_of(found) + offset->integer(kOffset), found);
    }
    if (const auto limit = number("at_most")) {
      found = whole_number(std::min(integer_of(found), *limit), found);
    }
    return found;
  }

  [[nodiscard]] RawValue translated(const RawValue& found, const Node& words,
                                    const Node& rule) const {
    std::vector<std::string> known;
    for (const Node::Entry& entry : words.entries()) {
      known.push_back(entry.key);
      if (!equal_value(entry.key, found.text)) continue;
      RawValue meaning = entry.value.raw();
      meaning.line = found.line;
      meaning.column = found.column;
      meaning.file = found.file;
      return meaning;
    }
    const auto key = rule.find("key");
    const std::string what = key ? spellings(*key).front() : std::string("this value");
    Document::made(found, 0, *found.file)
        .root()
        .fail(fmt::format("{} '{}' is not understood for {}", what, found.text, family_),
              fmt::format("understood: {}", fmt::join(known, ", ")));
  }

  [[noreturn]] void missing(const Node& rule) const {
    const std::vector<std::string> names = spellings(rule.at("key"));
    keys_.root().fail(
        fmt::format("key '{}' is missing; a {} configuration needs it", names.front(), family_),
        names.size() > 1
            ? fmt::format("also understood: {}", fmt::join(names.begin() + 1, names.end(), ", "))
            : std::string());
  }

  static void check_words(const Node& rule) {
    for (const Node::Entry& entry : rule.entries()) {
      const auto among = [&](const auto& list) { return contains(list, entry.key); };
      if (among(kSources) || among(kChanges)) continue;
      throw InputError(entry.where, fmt::format("'{}' is not a key of a rule", entry.key));
    }
  }

  const Node& model_;
  const HfKeys& keys_;
  const std::string& family_;
  std::optional<Node> item_{};  ///< of a list, whose keys rules may name
};

/// Every key that a rule below mentions.
void collect_keys(const Node& node, std::set<std::string>& known) {
  if (node.is_list()) {
    for (const Node& item : node.items()) collect_keys(item, known);
  }
  if (!node.is_map()) return;
  for (const Node::Entry& entry : node.entries()) {
    if (entry.key == "key" || entry.key == "entries" || entry.key == "letters" ||
        entry.key == "each" || entry.key == "members") {
      for (std::string& name : spellings(entry.value)) known.insert(std::move(name));
    } else if (entry.key == "when") {
      for (const Node::Entry& condition : entry.value.entries()) known.insert(condition.key);
    } else {
      collect_keys(entry.value, known);
    }
  }
}

std::set<std::string> ignored_keys(const Node& rules) {
  std::set<std::string> ignored;
  if (const auto list = rules.find("ignored")) {
    for (std::string& name : list->texts()) ignored.insert(std::move(name));
  }
  return ignored;
}

std::set<std::string> known_keys(const Node& rules) {
  std::set<std::string> known = {"model_type", "_name_or_path", "text_config", "_class_name",
                                 "dims",       "seq_len",       "family"};
  for (const char* section : {"model", "dims", "copies"}) {
    if (const auto fields = rules.find(section)) collect_keys(*fields, known);
  }
  for (const char* section : {"defaults", "only"}) {
    const auto map = rules.find(section);
    if (!map) continue;
    for (const Node::Entry& entry : map->entries()) known.insert(entry.key);
  }
  known.merge(ignored_keys(rules));
  return known;
}

}  // namespace

bool is_rule(const RawValue& map) {
  return map.kind == RawKind::Map && std::ranges::any_of(map.entries, [](const RawEntry& entry) {
           return contains(kSources, entry.key);
         });
}

RawValue apply_family(const Node& rules, const HfKeys& keys, const std::string& family,
                      std::string_view section) {
  const Node model = rules.at(section);
  const Application application(model, keys, family);
  const auto only = rules.find("only");
  if (only && section != "copies") application.require_understood(*only);  // once a configuration
  return application.section(model);
}

std::vector<std::string> unknown_keys(const Node& rules, const HfKeys& keys) {
  const std::set<std::string> known = known_keys(rules);
  const std::set<std::string> ignored = ignored_keys(rules);  // also inside nested maps
  const auto knows_inside = [&](const std::string& map) {
    const auto first = known.lower_bound(map + ".");
    return first != known.end() && first->starts_with(map + ".");
  };
  std::vector<std::string> unknown;
  for (const auto& [key, value] : keys.written()) {
    if (value.is_null() || known.contains(key) || knows_inside(key)) continue;
    bool named = !ignored.contains(key.substr(
        key.rfind('.') + 1));  // unless a map around it is known as a whole, or itself listed
    for (std::size_t dot = key.rfind('.'); dot != std::string::npos && dot > 0;
         dot = key.rfind('.', dot - 1)) {
      const std::string map = key.substr(0, dot);
      if (known.contains(map) || !knows_inside(map)) named = false;
    }
    if (named) unknown.push_back(key);
  }
  return unknown;
}

}  // namespace plansearch::io
