// SPDX-License-Identifier: Apache-2.0
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <fmt/format.h>

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

}  // namespace plansearch::io
