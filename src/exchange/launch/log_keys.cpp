// SPDX-License-Identifier: Apache-2.0
// Arguments that training programs print at the head of their logs: names with leaders (Megatron-LM, DeepSpeed), names
// in TrainingArguments( ) (transformers), "Config param" (MaxText), JSON over several lines (torchtitan, axolotl), and
// objects as Python's pprint shows them (verl, nanotron).
#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "base/names.hpp"
#include "exchange/launch/read_configuration.hpp"
#include "io/logs/line_pattern.hpp"

namespace plansearch::importers {
namespace {

/// A list of arguments has at least so many.
constexpr std::size_t kFewestKeys = 8;
constexpr std::string_view kLineBlanks = " \t\r";
constexpr std::string_view kNameLetters = "abcdefghijklmnopqrstuvwxyz_0123456789";

/// Arguments that are not called as their flags are.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kDestinations{
    {{"fp8", "--fp8-format"}, {"fp4", "--fp4-format"}}};

struct Pair {
  std::string_view name;
  std::string_view value;
};

bool is_name(std::string_view text) {
  return text.size() > 1 && text.find_first_not_of(kNameLetters) == std::string_view::npos;
}

/// "name ......... value", whatever stands in front.
std::optional<Pair> pair_with_leaders(std::string_view line) {
  const std::size_t dots = line.find(" ...");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view front = trimmed(line.substr(0, dots), kLineBlanks);
  const std::size_t end = line.find_first_not_of('.', dots + 1);
  if (end == std::string_view::npos || line[end] != ' ') return std::nullopt;
  const Pair pair{front.substr(front.find_last_of(" \t]:") + 1),
                  trimmed(line.substr(end), kLineBlanks)};
  return is_name(pair.name) ? std::optional(pair) : std::nullopt;
}

/// "Config param name: value".
std::optional<Pair> pair_of_maxtext(std::string_view line) {
  constexpr std::string_view kMark = "Config param ";
  const std::size_t at = line.find(kMark);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + kMark.size());
  const std::size_t colon = std::min(rest.find(": "), rest.size());
  if (colon == rest.size() || !is_name(rest.substr(0, colon))) return std::nullopt;
  return Pair{rest.substr(0, colon), trimmed(rest.substr(colon + 1), kLineBlanks)};
}

/// "name=value," inside TrainingArguments( ).
std::optional<Pair> pair_with_equals(std::string_view line) {
  const std::string_view text = trimmed(line, kLineBlanks);
  const std::size_t equals = std::min(text.find('='), text.size());
  if (equals == text.size() || !text.ends_with(',') || !is_name(text.substr(0, equals)))
    return std::nullopt;
  return Pair{text.substr(0, equals), text.substr(equals + 1, text.size() - equals - 2)};
}

/// "[rank0]:", "0: ": the rank whose line it is.
std::string_view rank_of(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon > 16) return {};
  const std::string_view front = trimmed(line.substr(0, colon), kLineBlanks);
  const bool bracket = front.starts_with('[') && front.ends_with(']');
  const bool digits = !front.empty() && front.find_first_not_of("0123456789") == front.npos;
  return bracket || digits ? line.substr(0, colon + 1) : std::string_view();
}

/// "'name': " of a dictionary or "name=" of an object at `at`, which moves behind it; empty where there is none.
std::string_view name_at(std::string_view text, std::size_t& at) {
  const bool quoted = at < text.size() && text[at] == '\'';
  const std::size_t begin = at + (quoted ? 1 : 0);
  const std::size_t end = std::min(text.find_first_not_of(kNameLetters, begin), text.size());
  const std::string_view behind = quoted ? "': " : "=";
  if (end == begin || !text.substr(end).starts_with(behind)) return {};
  at = end + behind.size();
  return text.substr(begin, end - begin);
}

/// An object that pprint shows over several lines: the names of one level stand in one column, and lines of other
/// processes in between have none there.
class PrintedObject {
 public:
  using Add = std::function<void(std::string name, std::string_view value)>;

  [[nodiscard]] bool open() const { return !levels_.empty(); }

  /// Where an object begins that does not end in its line: "{'name': ", "Config(name=". False without one.
  bool begin(std::string_view line, const Add& add) {
    constexpr std::string_view kEnds = " :)]";
    for (std::size_t at = line.find_first_of("{("); at < line.size();
         at = line.find_first_of("{(", at + 1)) {
      const std::size_t word = line.find_last_not_of(kLetters, at - 1) + 1;  // 0 without one
      const std::size_t first = line[at] == '(' ? word : at;
      std::size_t behind = at + 1;
      const bool named = (first < at || line[at] == '{') && !name_at(line, behind).empty();
      if (!named || (first > 0 && kEnds.find(line[first - 1]) == kEnds.npos)) continue;
      head_ = line.substr(0, first);
      levels_.assign(1, {at + 1, {}});
      stray_ = 0;
      read(line, at + 1, add);
      return open();
    }
    return false;
  }

  /// Lines of others are passed over, but not without end: a list may have closed the object.
  void read_line(std::string_view line, const Add& add) {
    constexpr int kStray = 1000;
    if (++stray_ > kStray) return levels_.clear();
    if (!has_head(line)) return;
    const std::size_t column = std::min(line.find_first_not_of(' ', head_.size()), line.size());
    std::size_t behind = column;
    if (name_at(line, behind).empty()) return;
    const auto level = std::ranges::find(levels_, column, &Level::column);
    if (level == levels_.end()) return;
    levels_.erase(level + 1, levels_.end());
    stray_ = 0;
    read(line, column, add);
  }

 private:
  struct Level {
    std::size_t column;
    std::string path;
  };

  /// As of the first line, but for the digits of the time.
  [[nodiscard]] bool has_head(std::string_view line) const {
    constexpr std::string_view kDigits = "0123456789";
    const auto is_digit = [&](char c) { return kDigits.find(c) != kDigits.npos; };
    return line.size() > head_.size() &&
           std::ranges::equal(head_, line.substr(0, head_.size()), [&](char a, char b) {
             return a == b || (is_digit(a) && is_digit(b));
           });
  }

  /// Names and values from a name on, and the brackets that end behind them.
  void read(std::string_view line, std::size_t at, const Add& add) {
    constexpr std::size_t kDeepest = 50;
    for (;;) {
      const std::string_view name = name_at(line, at);
      if (name.empty() || levels_.size() > kDeepest) return;
      std::string path = levels_.back().path + std::string(name);
      const std::size_t bracket = std::min(line.find_first_not_of(kLetters, at), line.size());
      std::size_t inner = bracket + 1;
      const bool opens = bracket < line.size() && (line[bracket] == '{' || line[bracket] == '(');
      if (opens && !name_at(line, inner).empty()) {
        at = bracket + 1;
        levels_.push_back({at, path + "."});
        continue;
      }
      const std::size_t end = end_of_value(line, at);
      add(std::move(path), line.substr(at, end - at));
      for (at = end; at < line.size() && (line[at] == '}' || line[at] == ')'); ++at) {
        levels_.pop_back();
        if (levels_.empty()) return;
      }
      at = std::min(line.find_first_not_of(", ", at), line.size());
    }
  }

  /// The comma or bracket behind a value.
  static std::size_t end_of_value(std::string_view line, std::size_t at) {
    int depth = 0;
    char quote = 0;
    for (; at < line.size(); ++at) {
      const char c = line[at];
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '\'' || c == '"') {
        quote = c;
      } else if (c == '(' || c == '[' || c == '{') {
        ++depth;
      } else if (c == ',' || c == ')' || c == ']' || c == '}') {
        if (depth == 0) return at;
        if (c != ',') --depth;
      }
    }
    return at;
  }

  static constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  std::string head_;  ///< in front of every line
  int stray_ = 0;     ///< lines since the last of its own
  std::vector<Level> levels_;
};

class LogKeys {
 public:
  LogKeys(const exporters::Targets& targets, const ConfigurationFile& file)
      : targets_(targets), file_(file) {}

  FoundKeys read() && {
    std::string_view rest = file_.text;
    if (rest.starts_with("#!") || trimmed(rest.substr(0, 80), kLineBlanks).starts_with('{'))
      return {};
    here_documents_ = rest.find("<<") != std::string_view::npos;  // their braces are configurations
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      ++line_;
      const std::string plain = io::without_colours(rest.substr(0, end));
      read(std::string_view(plain));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (found_.keys.size() < kFewestKeys) return {};
    found_.file = file_.name;
    found_.logged = true;
    return std::move(found_);
  }

 private:
  void read(std::string_view line) {
    const auto add_printed = [&](std::string name, std::string_view value) {
      add_value(std::move(name), value);
    };
    if (object_.open()) return object_.read_line(line, add_printed);
    if (!block_.empty()) return add_to_block(line);
    if (const auto pair = pair_with_leaders(line)) return add(*pair);
    if (const auto pair = pair_of_maxtext(line)) return add(*pair);
    const std::size_t before = found_.keys.size();
    if (object_.begin(line, add_printed)) return;
    found_.keys.resize(before);  // it is no more than a line
    if (line.find("TrainingArguments(") != std::string_view::npos) in_arguments_ = true;
    if (in_arguments_ && trimmed(line, kLineBlanks) == ")") in_arguments_ = false;
    if (in_arguments_) {
      if (const auto pair = pair_with_equals(line)) add(*pair);
      return;
    }
    if (!here_documents_ && trimmed(line, kLineBlanks).ends_with('{')) begin_block(line);
  }

  /// A value as Python shows it: "True", "<Mode.REDUCE_SCATTER: 2>", "<module.Engine object at 0x7f>".
  void add_value(std::string name, std::string_view value) {
    if (value == "True" || value == "False") return add(std::move(name), Value(value == "True"));
    if (value.starts_with('<')) {
      value = value.substr(1, value.find_first_of(": ", 1) - 1);
      value.remove_prefix(value.find_last_of('.') + 1);
    }
    add({name, value});
  }

  void add(const Pair& pair) {
    std::string text(pair.value);
    if (text == "None" || text.empty() || text.find('{') != std::string::npos) return;
    if (pair.name == "zero_stage") found_.exported = targets_.find("megatron-deepspeed");
    if (pair.name == "world_size") {
      if (found_.exported == nullptr) found_.exported = targets_.find("megatron");
      if (const Value gpus = plain_value(text); gpus.is_number_integer() && gpus > 0)
        found_.gpus = gpus.get<int>();
      return;
    }
    std::string name(pair.name);
    for (const auto& [argument, flag] : kDestinations)
      if (name == argument) name = flag;
    if (text == "False") {
      if (auto off = flag_that_turns_off(name); !off.empty()) add(std::move(off), Value(true));
      return;
    }
    if (text.front() == '[') std::erase_if(text, [](char c) { return c == '[' || c == ']'; });
    std::erase_if(text, [](char c) { return c == '\'' || c == '"' || c == ','; });
    // "AttnBackend.flash", "torch.bfloat16"
    const bool member = text.starts_with("torch.") || (text.front() >= 'A' && text.front() <= 'Z');
    if (member && text.find('/') == std::string::npos) text.erase(0, text.find('.') + 1);
    if (!text.empty()) add(std::move(name), plain_value(text));
  }

  void add(std::string name, Value value) {
    found_.keys.push_back({std::move(name), std::move(value), {file_.name, line_, 1}});
  }

  /// Flag that turns an argument off which is on otherwise ("add_bias_linear", "--disable-bias-linear").
  [[nodiscard]] std::string flag_that_turns_off(std::string name) const {
    std::ranges::replace(name, '_', '-');
    for (std::string flag :
         {"--no-" + name, "--disable-" + (name.starts_with("add-") ? name.substr(4) : name)}) {
      if (targets_.has_key(flag)) return flag;
    }
    return {};
  }

  void begin_block(std::string_view line) {
    rank_ = rank_of(line);
    block_ = "{\n";
    depth_ = 1;
    begin_ = line_;
  }

  /// Lines of the same rank until the brackets are closed.
  void add_to_block(std::string_view line) {
    constexpr int kLongest = 5000;
    if (line_ - begin_ > kLongest) return block_.clear();
    if (rank_of(line) != rank_) return;
    line.remove_prefix(rank_.size());
    bool quoted = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
      const char c = line[i];
      if (c == '"' && (i == 0 || line[i - 1] != '\\')) quoted = !quoted;
      if (!quoted) depth_ += c == '{' ? 1 : c == '}' ? -1 : 0;
      block_ += c;
      if (depth_ == 0) return end_block();
    }
    block_ += '\n';
  }

  void end_block() {
    const ConfigurationFile block{std::exchange(block_, {}), file_.name};
    try {
      for (FoundKey& key : keys_of_json(block, {})) {
        if (key.value.is_null()) continue;
        key.where.line = begin_;
        found_.keys.push_back(std::move(key));
      }
    } catch (const InputError&) {  // braces of something else
    }
  }

  const exporters::Targets& targets_;
  const ConfigurationFile& file_;
  FoundKeys found_;
  int line_ = 0;
  bool in_arguments_ = false;
  PrintedObject object_;
  bool here_documents_ = false;
  std::string block_;  ///< JSON that has begun
  std::string rank_;
  int depth_ = 0;
  int begin_ = 0;
};

}  // namespace

FoundKeys keys_of_log(const exporters::Targets& targets, const ConfigurationFile& file) {
  return LogKeys(targets, file).read();
}

}  // namespace plansearch::importers
