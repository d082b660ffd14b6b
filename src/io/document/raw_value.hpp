// SPDX-License-Identifier: Apache-2.0
// The tree that both parsers build: values with their places. Private to io.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "io/document/document.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {

enum class RawKind { Null, Plain, Quoted, List, Map };

struct RawEntry;

struct RawValue {
  RawKind kind = RawKind::Null;
  int line = 1;
  int column = 1;
  std::string text;               // scalars
  std::vector<RawValue> items;    // lists
  std::vector<RawEntry> entries;  // maps, in file order, keys unique
  std::size_t size = 1;           // values in this subtree, itself included
  std::size_t text_size = 0;      // bytes of text and keys in this subtree
  std::shared_ptr<const std::string> file;
  std::string called;  // its path in the file it is from, where it stands elsewhere now
  // Book-keeping of the reader; not part of the value.
  mutable std::vector<std::string> asked;
  mutable bool all_asked = false;
  mutable std::vector<InputError>* errors = nullptr;  // of a root: where they are collected
};

struct RawEntry {
  std::string key;
  int line = 1;
  int column = 1;
  RawValue value;
};

/// A value that stands where another does.
[[nodiscard]] inline RawValue value_at(const RawValue& place, RawKind kind, std::string text = {}) {
  RawValue value;
  value.kind = kind;
  value.line = place.line;
  value.column = place.column;
  value.file = place.file;
  value.text = std::move(text);
  return value;
}

/// The value of a key of a map; null where it has none.
template <typename Map>
[[nodiscard]] auto* value_under(Map& map, std::string_view key) {
  const auto found = std::ranges::find(map.entries, key, &RawEntry::key);
  return found == map.entries.end() ? nullptr : &found->value;
}

/// Builds a tree from a flat sequence of events, keeping within the limits. Used by both parsers.
class TreeBuilder {
 public:
  TreeBuilder(std::shared_ptr<const std::string> file, const ParseLimits& limits)
      : file_(std::move(file)), limits_(limits) {}

  /// A scalar, or the key of a map when one is due.
  void scalar(int line, int column, RawKind kind, std::string text);
  void open(int line, int column, RawKind kind);
  /// Ends the innermost list or map and returns it as placed in its parent.
  const RawValue& close();
  /// A copy of an already finished value.
  void copy(int line, int column, const RawValue& value);
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] RawValue take() { return std::move(root_); }
  [[noreturn]] void fail(int line, int column, const std::string& message,
                         std::string hint = {}) const;
  [[noreturn]] void fail_key(int line, int column) const;

 private:
  struct Frame {
    RawValue value;
    bool key_pending = false;
    std::string key;
    int key_line = 0;
    int key_column = 0;
    std::unordered_map<std::string, int> lines;  // of the keys seen
  };
  const RawValue& place(RawValue value);
  void count(int line, int column, std::size_t values, std::size_t text);
  void set_key(Frame& frame, int line, int column, std::string text);

  std::shared_ptr<const std::string> file_;
  ParseLimits limits_;
  std::vector<Frame> open_;
  RawValue root_;
  bool complete_ = false;
  std::size_t total_ = 0;
  std::size_t total_text_ = 0;
};

[[nodiscard]] RawValue parse_yaml(std::string_view text, std::shared_ptr<const std::string> file,
                                  const ParseLimits& limits);
[[nodiscard]] RawValue parse_json(std::string_view text, std::shared_ptr<const std::string> file,
                                  const ParseLimits& limits);

}  // namespace plansearch::io
