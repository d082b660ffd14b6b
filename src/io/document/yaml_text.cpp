// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>

#include "io/document/raw_value.hpp"

namespace plansearch::io {
namespace {

int line_of(const YAML::Mark& mark) {
  return mark.is_null() ? 0 : mark.line + 1;
}
int column_of(const YAML::Mark& mark) {
  return mark.is_null() ? 0 : mark.column + 1;
}

/// Turns yaml-cpp's events into a tree; aliases become counted copies.
class Events : public YAML::EventHandler {
 public:
  explicit Events(TreeBuilder& builder) : builder_(builder) {}

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    builder_.scalar(line_of(mark), column_of(mark), RawKind::Null, "");
    if (anchor != YAML::NullAnchor) anchors_[anchor] = leaf(mark, RawKind::Null, "");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const RawKind kind = tag == "!" ? RawKind::Quoted : RawKind::Plain;
    builder_.scalar(line_of(mark), column_of(mark), kind, value);
    if (anchor != YAML::NullAnchor) anchors_[anchor] = leaf(mark, kind, value);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      builder_.fail(line_of(mark), column_of(mark), "an alias inside the value it names");
    }
    builder_.copy(line_of(mark), column_of(mark), found->second);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    builder_.open(line_of(mark), column_of(mark), RawKind::List);
    open_anchors_.push_back(anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    builder_.open(line_of(mark), column_of(mark), RawKind::Map);
    open_anchors_.push_back(anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  static RawValue leaf(const YAML::Mark& mark, RawKind kind, const std::string& text) {
    RawValue value;
    value.kind = kind;
    value.line = line_of(mark);
    value.column = column_of(mark);
    value.text = text;
    value.text_size = text.size();
    return value;
  }
  void close() {
    const YAML::anchor_t anchor = open_anchors_.back();
    open_anchors_.pop_back();
    const RawValue& value = builder_.close();
    if (anchor != YAML::NullAnchor) anchors_[anchor] = value;
  }

  TreeBuilder& builder_;
  std::map<YAML::anchor_t, RawValue> anchors_;
  std::vector<YAML::anchor_t> open_anchors_;
};

}  // namespace

RawValue parse_yaml(std::string_view text, std::shared_ptr<const std::string> file,
                    const ParseLimits& limits) {
  TreeBuilder builder(file, limits);
  Events events(builder);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    parser.HandleNextDocument(events);
    if (builder.complete() && parser) {
      TreeBuilder second(file, limits);
      Events rest(second);
      if (parser.HandleNextDocument(rest) && second.complete()) {
        builder.fail(0, 0, "the file holds more than one YAML document", "keep one per file");
      }
    }
  } catch (const YAML::Exception& e) {
    builder.fail(line_of(e.mark), column_of(e.mark), fmt::format("not valid YAML: {}", e.msg),
                 "YAML indents with spaces, writes key: value with a space after the colon");
  }
  if (!builder.complete()) builder.fail(0, 0, "the file is empty", "is this the right file?");
  return builder.take();
}

void TreeBuilder::fail(int line, int column, const std::string& message, std::string hint) const {
  throw InputError({*file_, line, column}, message, std::move(hint));
}

void TreeBuilder::fail_key(int line, int column) const {
  fail(line, column, "a key must be a simple text, not a list or a map",
       "write key: value; is this the right file?");
}

void TreeBuilder::count(int line, int column, std::size_t values, std::size_t text) {
  total_ += values;
  total_text_ += text;
  if (total_ > limits_.values) {
    fail(line, column, fmt::format("the file expands to more than {} values", limits_.values),
         "aliases that repeat aliases grow exponentially; write the values out");
  }
  // Without aliases a file holds hardly more text than it is long.
  if (total_text_ > limits_.size) {
    fail(line, column, fmt::format("the file expands to more than {} bytes of text", limits_.size),
         "aliases repeat a long text; shorten it, or write fewer of them");
  }
}

void TreeBuilder::set_key(Frame& frame, int line, int column, std::string text) {
  const auto [seen, is_new] = frame.lines.emplace(text, line);
  if (!is_new) {
    fail(line, column, fmt::format("key '{}' appears twice", text),
         fmt::format("the first one is at line {}; keep one of them", seen->second));
  }
  frame.key_pending = true;
  frame.key = std::move(text);
  frame.key_line = line;
  frame.key_column = column;
}

const RawValue& TreeBuilder::place(RawValue value) {
  if (open_.empty()) {
    root_ = std::move(value);
    complete_ = true;
    return root_;
  }
  Frame& frame = open_.back();
  frame.value.size += value.size;
  frame.value.text_size += value.text_size;
  if (frame.value.kind == RawKind::List) return frame.value.items.emplace_back(std::move(value));
  if (!frame.key_pending) fail_key(value.line, value.column);
  frame.key_pending = false;
  frame.value.text_size += frame.key.size();
  frame.value.entries.push_back(
      {std::move(frame.key), frame.key_line, frame.key_column, std::move(value)});
  return frame.value.entries.back().value;
}

void TreeBuilder::scalar(int line, int column, RawKind kind, std::string text) {
  count(line, column, 1, text.size());
  if (!open_.empty() && open_.back().value.kind == RawKind::Map && !open_.back().key_pending) {
    return set_key(open_.back(), line, column, std::move(text));
  }
  RawValue value;
  value.kind = kind;
  value.line = line;
  value.column = column;
  value.text = std::move(text);
  value.text_size = value.text.size();
  value.file = file_;
  place(std::move(value));
}

void TreeBuilder::open(int line, int column, RawKind kind) {
  count(line, column, 1, 0);
  if (static_cast<int>(open_.size()) >= limits_.depth) {
    fail(line, column, fmt::format("nested deeper than {} levels", limits_.depth),
         "is this the right file?");
  }
  if (!open_.empty() && open_.back().value.kind == RawKind::Map && !open_.back().key_pending) {
    fail_key(line, column);
  }
  Frame frame;
  frame.value.kind = kind;
  frame.value.line = line;
  frame.value.column = column;
  frame.value.file = file_;
  open_.push_back(std::move(frame));
}

const RawValue& TreeBuilder::close() {
  RawValue value = std::move(open_.back().value);
  open_.pop_back();
  return place(std::move(value));
}

void TreeBuilder::copy(int line, int column, const RawValue& value) {
  count(line, column, value.size, value.text_size);
  if (!open_.empty() && open_.back().value.kind == RawKind::Map && !open_.back().key_pending) {
    fail(line, column, "an alias cannot be a key");
  }
  place(RawValue(value));
}

}  // namespace plansearch::io
