// SPDX-License-Identifier: Apache-2.0
// YAML and JSON files as one located tree. A reader asks for the keys it knows, with the type it
// wants; every fault becomes an InputError with file, line, column and a remedy, and `finish()`
// reports the keys that were not read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/overrides.hpp"
#include "base/units.hpp"
#include "io/document/file.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {

struct RawValue;  // one value of the parsed file (src/io/document/raw_value.hpp)

/// Closed range of integers a field accepts.
struct IntegerRange {
  std::int64_t low = std::numeric_limits<std::int64_t>::min();
  std::int64_t high = std::numeric_limits<std::int64_t>::max();
};
inline constexpr IntegerRange kPositive{1, std::numeric_limits<std::int64_t>::max()};
inline constexpr IntegerRange kNonNegative{0, std::numeric_limits<std::int64_t>::max()};

/// One spelling of an enumerator.
template <typename E>
struct Choice {
  std::string_view name;
  E value;
};

/// The spelling of a value; of one that has none, the first.
template <typename E, std::size_t Count>
[[nodiscard]] std::string_view word_of(const Choice<E> (&words)[Count], E value) {
  for (const Choice<E>& word : words) {
    if (word.value == value) return word.name;
  }
  return words[0].name;
}

enum class Syntax { Yaml, Json };

/// Bounds on what a file may expand to; beyond them it is refused.
struct ParseLimits {
  std::size_t size = kDefaultSizeLimit;
  std::size_t values = 400'000;  ///< after expanding YAML aliases
  int depth = 64;
};

/// A value of the tree. Cheap to copy; keeps the whole document alive.
class Node {
 public:
  struct Entry;

  [[nodiscard]] bool is_null() const;
  [[nodiscard]] bool is_scalar() const;
  [[nodiscard]] bool is_list() const;
  [[nodiscard]] bool is_map() const;
  [[nodiscard]] SourceLocation where() const;
  /// Place in the document for messages: "tiers[1].bandwidth"; empty at the root.
  [[nodiscard]] std::string path() const;
  /// Ends the reading: what is read makes no sense as a whole.
  [[noreturn]] void fail(const std::string& message, std::string hint = {}) const;
  /// One value is wrong: ends the reading too, unless errors are collected (Document::collect).
  void report(const std::string& message, std::string hint = {}) const;

  // Maps. `find` treats an empty value as absent. Keys asked for count as known and used.
  [[nodiscard]] Node at(std::string_view key) const;
  [[nodiscard]] std::optional<Node> find(std::string_view key) const;
  /// All entries in file order; every key counts as used.
  [[nodiscard]] std::vector<Entry> entries() const;
  /// Refuses keys of this map, and of the maps below it, that were never asked for.
  void finish() const;
  /// The value itself, for code that makes trees out of trees (raw_value.hpp).
  [[nodiscard]] const RawValue& raw() const { return *value_; }
  /// Marks this value and everything below as used.
  void ignore() const;

  // Lists.
  [[nodiscard]] std::vector<Node> items() const;
  [[nodiscard]] std::vector<std::string> texts() const;

  // Scalars.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string name() const;  ///< a text in one line
  [[nodiscard]] double number() const;
  [[nodiscard]] double positive_number() const;
  [[nodiscard]] bool boolean() const;
  [[nodiscard]] std::int64_t integer(IntegerRange range = {}) const;
  /// The same as `integer`, for counts kept in an int.
  [[nodiscard]] int count(int low = 1, int high = std::numeric_limits<int>::max()) const;
  template <typename E>
  [[nodiscard]] E choice(std::span<const Choice<E>> choices) const;

  // Quantities with a unit.
  template <typename Q>
  [[nodiscard]] Q quantity() const;
  template <typename Q>
  [[nodiscard]] Q positive() const;
  template <typename Q>
  [[nodiscard]] Q non_negative() const;

 private:
  friend class Document;
  Node(std::shared_ptr<const RawValue> root, const RawValue* value, std::string path);
  [[nodiscard]] Node child(const RawValue& value, std::string path) const;
  /// A stand-in for a missing value, where errors are collected: faults of it are not reported
  /// again.
  [[nodiscard]] Node stand_in(std::string path) const;
  [[nodiscard]] bool is_stand_in() const;
  [[nodiscard]] std::optional<std::string_view> plain_scalar(std::string_view expected) const;
  [[nodiscard]] std::optional<std::string> known_text() const;
  void report_quantity(std::string_view text, std::string_view expected) const;
  void report_choice(const std::vector<std::string>& names) const;
  template <typename Q>
  [[nodiscard]] std::optional<Q> parsed() const;

  std::shared_ptr<const RawValue> root_;  // owns the tree
  const RawValue* value_;
  std::string path_;
};

struct Node::Entry {
  std::string key;
  SourceLocation where;  ///< of the key
  Node value;
};

/// A parsed file: its tree, its text's hash and its directory (relative paths start there).
class Document {
 public:
  /// JSON when the name ends in .json, YAML otherwise.
  [[nodiscard]] static Document read(const std::filesystem::path& path,
                                     const ParseLimits& limits = {});
  [[nodiscard]] static Document parse(std::string_view text, std::string file_name, Syntax syntax,
                                      const ParseLimits& limits = {});
  /// A tree made from others; its places stay those of the values.
  [[nodiscard]] static Document made(RawValue root, std::uint64_t hash, std::string file_name);
  [[nodiscard]] Node root() const;
  [[nodiscard]] const RawValue& raw() const { return *root_; }
  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  [[nodiscard]] const std::string& file() const { return file_; }
  [[nodiscard]] std::filesystem::path directory() const;

  /// The result of `read` on the root. Wrong values, missing and unknown keys are collected and
  /// thrown together, as InputErrors, with the error that ends the reading.
  template <typename Read>
  auto collect(const Read& read) const {
    std::vector<InputError> errors;
    const Collecting collecting(*root_, errors);
    try {
      auto value = read(root());
      if (errors.empty()) return value;
    } catch (const InputError& error) {
      if (errors.empty()) throw;
      // One of this file may follow from values that were wrong.
      if (error.where().file != file_) errors.push_back(error);
    }
    throw InputErrors(std::move(errors));
  }

 private:
  /// Errors of values below this root go to the list as long as it lives.
  class Collecting {
   public:
    Collecting(const RawValue& root, std::vector<InputError>& errors);
    ~Collecting();
    Collecting(const Collecting&) = delete;
    Collecting& operator=(const Collecting&) = delete;

   private:
    const RawValue& root_;
  };

  Document(std::shared_ptr<const RawValue> root, std::uint64_t hash, std::string file);
  std::shared_ptr<const RawValue> root_;
  std::uint64_t hash_;
  std::string file_;
};

template <typename E>
E Node::choice(std::span<const Choice<E>> choices) const {
  const std::optional<std::string> wanted = known_text();
  std::vector<std::string> names;
  for (const Choice<E>& c : choices) {
    if (c.name == wanted) return c.value;
    names.emplace_back(c.name);
  }
  if (wanted) report_choice(names);
  return choices.front().value;
}

template <typename Q>
std::optional<Q> Node::parsed() const {
  const std::optional<std::string> wanted = known_text();
  if (!wanted) return std::nullopt;
  const auto found = parse_quantity<Q>(*wanted);
  if (!found) report_quantity(*wanted, expected_unit<Q>());
  return found;
}

template <typename Q>
Q Node::quantity() const {
  return parsed<Q>().value_or(Q{});
}

namespace detail {
template <typename Q>
double base_units(Q quantity) {
  if constexpr (requires { quantity.value(); }) {
    return quantity.value();
  } else {
    return quantity.value;
  }
}
}  // namespace detail

template <typename Q>
Q Node::positive() const {
  const std::optional<Q> found = parsed<Q>();
  if (found && detail::base_units(*found) <= 0.0) report("'" + text() + "' must be above zero");
  return found.value_or(Q{});
}

template <typename Q>
Q Node::non_negative() const {
  const std::optional<Q> found = parsed<Q>();
  if (found && detail::base_units(*found) < 0.0) report("'" + text() + "' must not be negative");
  return found.value_or(Q{});
}

/// Refuses a file of another schema; `what` says what the file is not.
void require_schema(const Node& root, std::string_view schema,
                    std::string_view what = "the schema expected here");

// Values of `--set` laid over a parsed file before anybody reads it: units, checks and messages are
// those of the reader of that file.

/// A copy of the document with the values set; items of lists go by their `name`, or by number from
/// 0. A key below a value that names another file ("accelerator: a100") makes that file's contents
/// the base: {like: a100, KEY: VALUE}. The hash covers the values set. InputError for an item that
/// the list does not have, with the nearest; the reader reports unknown keys.
[[nodiscard]] Document overlaid(const Document& document, std::span<const Override> overrides);

/// Whether a value was set by `--set`, and not in a file.
[[nodiscard]] bool is_set_place(const SourceLocation& where);

}  // namespace plansearch::io
