// SPDX-License-Identifier: Apache-2.0
// Keys of JSON and YAML.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.hpp"
#include "exchange/launch/read_configuration.hpp"
#include "io/document/document.hpp"
#include "io/document/raw_value.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::importers {

namespace {

using exporters::value_of;

void flatten(const io::RawValue& map, const std::string& path, const std::string& file,
             std::vector<FoundKey>& keys) {
  for (const io::RawEntry& entry : map.entries) {
    // Lists of flags stand under names of their own ("MODEL_ARGS: --num-layers: 32").
    const bool whole = path.empty() || entry.key.starts_with("--");
    const std::string name = whole ? entry.key : path + "." + entry.key;
    if (entry.value.kind == io::RawKind::Map) {
      flatten(entry.value, name, file, keys);
    } else {
      keys.push_back({name, value_of(entry.value), {file, entry.line, entry.column}});
    }
  }
}

/// "${a.b}" and "${.sibling}" as OmegaConf replaces them, and variables of the environment that are
/// defined; others depend on what is not in the file.
void interpolate(std::vector<FoundKey>& keys, const Definitions& definitions) {
  for (FoundKey& key : keys) {
    if (!key.value.is_string()) continue;
    const std::string text = key.value.get<std::string>();
    if (text.find("${") == std::string::npos) continue;
    const bool whole = text.starts_with("${") && text.find('}') == text.size() - 1;
    std::string name = whole ? text.substr(2, text.size() - 3) : text;
    key.unknown = name;
    if (!whole) continue;
    if (const auto defined = definitions.find(name); defined != definitions.end()) {
      key.value = plain_value(defined->second);
      key.unknown.reset();
      continue;
    }
    if (name.starts_with(".")) {
      const auto dot = key.name.rfind('.');
      name = dot == std::string::npos ? name.substr(1) : key.name.substr(0, dot) + name;
    }
    const auto found = std::ranges::find(keys, name, &FoundKey::name);
    if (found == keys.end() || found->unknown) continue;
    if (found->value.is_string() && found->value.get<std::string>().find("${") != std::string::npos)
      continue;
    key.value = Value(found->value);
    key.unknown.reset();
  }
}

std::vector<FoundKey> keys_of(const ConfigurationFile& file, io::Syntax syntax,
                              const Definitions& definitions) {
  const io::Document document = io::Document::parse(file.text, file.name, syntax);
  std::vector<FoundKey> keys;
  if (!document.root().is_map()) document.root().fail("expected keys and values");
  flatten(document.raw(), {}, file.name, keys);
  interpolate(keys, definitions);
  return keys;
}

/// "$$" of the arguments of a container is one "$".
std::string without_escapes(const std::string& text) {
  std::string script;
  for (std::size_t i = 0; i < text.size(); ++i) {
    script += text[i];
    if (text[i] == '$' && i + 1 < text.size() && text[i + 1] == '$') ++i;
  }
  return script;
}

/// A word as a shell reads it whole.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? "'\\''" : std::string(1, letter);
  return text + "' ";
}

/// The first of `command: [bash, -c]` with `args: [SCRIPT]`, or of a program with flags, wherever it
/// stands in a job.
std::string script_in(const io::RawValue& value) {
  std::vector<std::string> words;
  for (const char* key : {"command", "args"}) {
    const auto found = std::ranges::find(value.entries, key, &io::RawEntry::key);
    if (found == value.entries.end()) continue;
    for (const io::RawValue& item : found->value.items) words.push_back(item.text);
  }
  const std::size_t count = words.size();
  if (count >= 2 && words[count - 2].starts_with('-') && words[count - 2].ends_with('c'))
    return without_escapes(words.back());
  std::string script;
  for (const std::string& word : words) script += quoted(word);
  if (script.find("--") != std::string::npos) return without_escapes(script);
  script.clear();
  for (std::size_t i = 0; i < value.items.size() && script.empty(); ++i)
    script = script_in(value.items[i]);
  for (std::size_t i = 0; i < value.entries.size() && script.empty(); ++i)
    script = script_in(value.entries[i].value);
  return script;
}

/// Accelerators of all copies of the containers of a job.
int gpus_in(const io::RawValue& value, int copies) {
  int gpus = 0;
  for (const io::RawEntry& entry : value.entries)
    if (entry.key == "replicas" || entry.key == "parallelism")
      copies = std::clamp(parse_as<int>(entry.value.text).value_or(1), 1, 100'000);
  for (const io::RawEntry& entry : value.entries) {
    if (entry.key.ends_with(".com/gpu"))
      gpus += copies * std::clamp(parse_as<int>(entry.value.text).value_or(0), 0, 64);
    else if (entry.key != "requests")  // of which limits are the same
      gpus += gpus_in(entry.value, copies);
  }
  for (const io::RawValue& item : value.items) gpus += gpus_in(item, copies);
  return gpus;
}

class TomlReader {
 public:
  explicit TomlReader(const ConfigurationFile& file) : file_(file), text_(file.text) {}

  std::vector<FoundKey> read() {
    while (skip_to_entry()) {
      check_stop();
      if (peek() == '[') {
        header();
      } else {
        entry(table_);
      }
      skip_blanks();
      if (next_ < text_.size() && peek() != '\n') fail("a new line is due");
    }
    return std::move(keys_);
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return next_ + ahead < text_.size() ? text_[next_ + ahead] : '\0';
  }
  [[nodiscard]] SourceLocation here() {
    for (; seen_ < next_ && seen_ < text_.size(); ++seen_) {
      ++place_.column;
      if (text_[seen_] == '\n') {
        ++place_.line;
        place_.column = 1;
      }
    }
    return place_;
  }
  [[noreturn]] void fail(const std::string& message) {
    throw InputError(here(), fmt::format("not TOML: {}", message),
                     "scripts, JSON and YAML are read too");
  }
  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r') ++next_;
    if (peek() == '#') {
      while (next_ < text_.size() && peek() != '\n') ++next_;
    }
  }
  bool skip_to_entry() {
    do {
      skip_blanks();
    } while (peek() == '\n' && ++next_ != 0);
    return next_ < text_.size();
  }
  void take(char letter) {
    skip_blanks();
    if (peek() != letter) fail(fmt::format("'{}' is due", letter));
    ++next_;
  }

  void header() {
    const bool list = peek(1) == '[';
    next_ += list ? 2 : 1;
    table_ = path();
    take(']');
    if (list) take(']');
  }

  std::string path() {
    std::string name;
    for (;;) {
      skip_blanks();
      name += peek() == '"' || peek() == '\'' ? quoted().get<std::string>() : bare();
      skip_blanks();
      if (peek() != '.') return name;
      ++next_;
      name += '.';
    }
  }

  std::string bare() {
    const std::size_t begin = next_;
    const auto fits = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
             c == '_' || c == '-';
    };
    while (fits(peek())) ++next_;
    if (next_ == begin) fail("a key is due");
    return text_.substr(begin, next_ - begin);
  }

  void entry(const std::string& table) {
    FoundKey key;
    key.where = here();
    key.name = path();
    if (!table.empty()) key.name = table + "." + key.name;
    take('=');
    skip_blanks();
    if (peek() == '{') return inline_table(key.name);
    key.value = value();
    keys_.push_back(std::move(key));
  }

  void inline_table(const std::string& table) {
    if (++depth_ > 30) fail("tables are nested too deeply");
    ++next_;
    skip_blanks();
    while (peek() != '}') {
      entry(table);
      skip_blanks();
      if (peek() == ',')
        ++next_;
      else if (peek() != '}')
        fail("',' or '}' is due");
      skip_blanks();
    }
    ++next_;
    --depth_;
  }

  Value value() {
    skip_blanks();
    if (peek() == '"' || peek() == '\'') return quoted();
    if (peek() == '[') return array();
    const std::size_t begin = next_;
    while (next_ < text_.size() &&
           std::string_view(",]}#\n\r").find(peek()) == std::string_view::npos)
      ++next_;
    std::string word = text_.substr(begin, next_ - begin);
    while (!word.empty() && (word.back() == ' ' || word.back() == '\t')) word.pop_back();
    if (word.empty()) fail("a value is due");
    std::string digits = word;
    std::erase(digits, '_');
    const Value number = plain_value(digits);
    return number.is_number() ? number : plain_value(word);
  }

  Value array() {
    if (++depth_ > 30) fail("arrays are nested too deeply");
    ++next_;
    Value items = Value::array();
    while (skip_to_entry() && peek() != ']') {
      if (peek() == '{') fail("tables in arrays are not read");
      items.push_back(value());
      if (!skip_to_entry()) break;
      if (peek() == ',')
        ++next_;
      else if (peek() != ']')
        fail("',' or ']' is due");
    }
    take(']');
    --depth_;
    return items;
  }

  Value quoted() {
    const char quote = peek();
    const bool block = peek(1) == quote && peek(2) == quote;
    const std::string end(block ? 3 : 1, quote);
    next_ += end.size();
    std::string result;
    while (text_.compare(next_, end.size(), end) != 0) {
      if (next_ >= text_.size() || (!block && peek() == '\n')) fail("a string does not end");
      if (quote == '"' && peek() == '\\' && next_ + 1 < text_.size()) {
        const char escaped = peek(1);
        result += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
        next_ += 2;
        continue;
      }
      result += peek();
      ++next_;
    }
    next_ += end.size();
    return Value(result);
  }

  const ConfigurationFile& file_;
  const std::string& text_;
  std::size_t next_ = 0;
  std::size_t seen_ = 0;  ///< place_ is there
  SourceLocation place_{file_.name, 1, 1};
  int depth_ = 0;
  std::string table_;
  std::vector<FoundKey> keys_;
};

}  // namespace

JobScript script_of_job(const ConfigurationFile& file) {
  if (file.text.find("containers:") == std::string::npos) return {};
  const io::Document job = io::Document::parse(file.text, file.name, io::Syntax::Yaml);
  return {script_in(job.raw()), gpus_in(job.raw(), 1)};
}

std::vector<FoundKey> keys_of_yaml(const ConfigurationFile& file, const Definitions& definitions) {
  return keys_of(file, io::Syntax::Yaml, definitions);
}

std::vector<FoundKey> keys_of_json(const ConfigurationFile& file, const Definitions& definitions) {
  return keys_of(file, io::Syntax::Json, definitions);
}

std::vector<FoundKey> keys_of_toml(const ConfigurationFile& file) {
  return TomlReader(file).read();
}

}  // namespace plansearch::importers
