// SPDX-License-Identifier: Apache-2.0
// Arguments that training programs print at the head of their logs: names with leaders (Megatron-LM, DeepSpeed), names
// in TrainingArguments( ) (transformers), "Config param" (MaxText), and JSON over several lines (torchtitan, axolotl).
#include <algorithm>
#include <array>
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
    if (!block_.empty()) return add_to_block(line);
    if (const auto pair = pair_with_leaders(line)) return add(*pair);
    if (const auto pair = pair_of_maxtext(line)) return add(*pair);
    if (line.find("TrainingArguments(") != std::string_view::npos) in_arguments_ = true;
    if (in_arguments_ && trimmed(line, kLineBlanks) == ")") in_arguments_ = false;
    if (in_arguments_) {
      if (const auto pair = pair_with_equals(line)) add(*pair);
      return;
    }
    if (!here_documents_ && trimmed(line, kLineBlanks).ends_with('{')) begin_block(line);
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
