// SPDX-License-Identifier: Apache-2.0
#include "io/document/document.hpp"

#include <fmt/format.h>

#include "base/hash.hpp"
#include "io/document/raw_value.hpp"

namespace plansearch::io {
namespace {

/// Length of the UTF-8 sequence at the start of `text`, 0 when it is malformed.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return 0;
  }
  return length;
}

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

}  // namespace

Document::Document(std::shared_ptr<const RawValue> root, std::uint64_t hash, std::string file)
    : root_(std::move(root)), hash_(hash), file_(std::move(file)) {}

Document Document::read(const std::filesystem::path& path, const ParseLimits& limits) {
  const std::string text = read_file(path, limits.size);
  return parse(text, path.string(), syntax_of(path, text), limits);
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

}  // namespace plansearch::io
