// SPDX-License-Identifier: Apache-2.0
// Flags of the program that launch scripts start, and how many processes its launcher makes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "exchange/launch/read_configuration.hpp"
#include "exchange/launch/shell_script.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::importers {
namespace {

bool is_flag(std::string_view word) {
  if (word.size() < 2 || word[0] != '-') return false;
  const char first = word[1] == '-' && word.size() > 2 ? word[2] : word[1];
  return (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
}

/// A key that is a word by itself ("activation-checkpoint:full"): no value of the flag before it.
bool is_word_key(std::string_view word, const exporters::Targets& targets) {
  return !is_flag(word) && word.find(':') != std::string_view::npos && targets.has_key(word);
}

bool holds_flags(const MarkedText& word) {
  return word.text.find("--") != std::string::npos &&
         word.text.find_first_of(" \t\n") != std::string::npos;
}

/// Words of a command, those that are commands themselves split again.
void spread(const MarkedText& word, const Variables& variables, int depth,
            std::vector<MarkedText>& words) {
  if (depth == 0 || !holds_flags(word)) {
    words.push_back(word);
    return;
  }
  for (const MarkedText& inner : split_again(word, variables))
    spread(inner, variables, depth - 1, words);
}

/// The place behind the program: "pretrain_gpt.py", "-m torchtitan.train".
std::size_t behind_program(const std::vector<MarkedText>& words) {
  std::size_t module = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].text.ends_with(".py")) return i + 1;
    if (words[i].text == "-m" && i + 1 < words.size() &&
        !words[i + 1].text.starts_with("torch.distributed"))
      module = i + 2;
  }
  return module;
}

/// "key=value" and Hydra's "+a.b=value", no path and no address.
bool is_override(std::string_view text) {
  const std::string_view name = text.substr(0, std::min(text.find('='), text.size()));
  if (name.size() == text.size() || name.empty()) return false;
  return std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '+';
  });
}

/// Whether a text is an override rather than the value of the flag before it.
bool is_path_override(std::string_view text) {
  return is_override(text) && text.substr(0, text.find('=')).find('.') != std::string_view::npos;
}

/// How many different flags there are, and overrides: behind a program, or of a target's keys.
std::size_t flags_in(const std::vector<MarkedText>& words, const exporters::Targets& targets) {
  std::set<std::string_view> names;
  const std::size_t program = behind_program(words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view text = words[i].text;
    const bool behind = program > 0 && i >= program;
    const bool said =
        is_override(text) && (behind || targets.has_key(text.substr(0, text.find('='))));
    if (said || (is_flag(text) && text[1] == '-')) names.insert(text.substr(0, text.find('=')));
  }
  return names.size();
}

/// Whether a word is unknown only because it holds the arguments of a call of the script.
bool is_arguments_of_call(std::string_view text) {
  const auto name = unknown_in(text);
  return name && (name->starts_with("@") || name->starts_with("*"));
}

/// Whether a word is one value that only the running script knows: it may hold options.
bool is_unknown(std::string_view text) {
  return !text.empty() && text.front() == kUnknown && text.find(kEndOfName) == text.size() - 1 &&
         !is_arguments_of_call(text);
}

class FlagReader {
 public:
  FlagReader(const exporters::Targets& targets, const Script& script, std::vector<FoundKey>& keys,
             std::vector<std::string>& notes)
      : targets_(targets), script_(script), keys_(keys), notes_(notes) {}

  void read(const std::vector<MarkedText>& words, std::size_t from) {
    for (std::size_t i = from; i < words.size(); ++i) {
      check_stop();
      if (is_arguments_of_call(words[i].text)) continue;
      if (is_flag(words[i].text)) {
        flag(words, i);
      } else {
        word(words[i]);
      }
    }
  }

 private:
  /// The flag and the values behind it.
  void flag(const std::vector<MarkedText>& words, std::size_t& i) {
    const MarkedText& word = words[i];
    const auto equals = word.text.find('=');
    FoundKey key{word.text.substr(0, equals), Value(true), script_.place(word.offset())};
    std::vector<std::string> values;
    if (equals != std::string::npos) values.push_back(word.text.substr(equals + 1));
    while (equals == std::string::npos && i + 1 < words.size() && !is_flag(words[i + 1].text) &&
           !is_word_key(words[i + 1].text, targets_) && !is_path_override(words[i + 1].text)) {
      if (!values.empty() && is_unknown(words[i + 1].text)) break;
      ++i;
      if (!is_arguments_of_call(words[i].text)) values.push_back(words[i].text);
    }
    set_value(key, values);
    keys_.push_back(std::move(key));
  }

  static void set_value(FoundKey& key, const std::vector<std::string>& values) {
    for (const std::string& value : values) {
      if (auto name = unknown_in(value); name && !key.unknown) key.unknown = std::move(name);
    }
    if (values.size() == 1) key.value = Value(spelled(values.front()));
    if (values.size() > 1) {
      key.value = Value::array();
      for (const std::string& value : values) key.value.push_back(spelled(value));
    }
    // A variable that nothing sets is an empty word: the flag alone.
    if (key.unknown && values.size() == 1 && without_unset(values.front()) == std::string())
      key.value = Value(true);
    key.name = spelled(key.name);
  }

  /// Hydra's "key=value" and words such as "activation-checkpoint:full".
  void word(const MarkedText& text) {
    if (is_unknown(text.text)) {
      const SourceLocation place = script_.place(text.offset());
      const std::string note =
          fmt::format("{}:{}: options in {} are not read: known only when the script runs",
                      place.file, place.line, spelled(text.text));
      if (!contains(notes_, note)) notes_.push_back(note);
      return;
    }
    const auto equals = text.text.find('=');
    FoundKey key{text.text.substr(0, equals), Value(true), script_.place(text.offset())};
    while (!key.name.empty() && key.name.front() == '+') key.name.erase(0, 1);
    if (equals == std::string::npos && text.text.find(':') == std::string::npos) return;
    if (equals != std::string::npos) set_value(key, {text.text.substr(equals + 1)});
    keys_.push_back(std::move(key));
  }

  const exporters::Targets& targets_;
  const Script& script_;
  std::vector<FoundKey>& keys_;
  std::vector<std::string>& notes_;
};

std::optional<int> positive(std::string_view text) {
  const auto value = parse_as<int>(text);
  return value && *value > 0 && *value < 10'000'000 ? value : std::nullopt;
}

/// Nodes and processes on each, under the names that launchers and scripts have for them.
struct Ranks {
  std::optional<int> nodes, each, all;
  void set(std::string name, std::string_view text) {
    std::ranges::replace(name, '_', '-');
    if (name == "--gpus-per-node" || (name == "--gres" && text.starts_with("gpu:")))
      text = text.substr(text.rfind(':') + 1);  // "h100:8"
    const auto value = positive(text);
    if (!value) return;
    constexpr std::array kNodes{"--nnodes", "--num-nodes", "--nodes", "-N", "--num-machines"};
    constexpr std::array kEach{"--nproc-per-node", "--num-gpus", "--gpus-per-node", "--gres",
                               "--ntasks-per-node"};
    if (contains(kNodes, name)) nodes = value;
    // One task a node starts the others itself.
    const bool task = name == "--ntasks-per-node" && (*value == 1 || each);
    if (!task && contains(kEach, name)) each = value;
    if (name == "--num-processes" || name == "--gpus") all = value;
  }
  [[nodiscard]] std::optional<int> product() const {
    if (all) return all;
    if (!each || (nodes && *nodes > 10'000'000 / *each)) return std::nullopt;
    return *each * nodes.value_or(1);
  }
};

/// "#SBATCH --nodes=4 --gpus-per-node=8" and the like.
Ranks slurm_header(const std::vector<ConfigurationFile>& files) {
  Ranks ranks;
  for (const ConfigurationFile& file : files) {
    for (const std::string& line : split(file.text, "\n")) {
      if (!line.starts_with("#SBATCH")) continue;
      const auto words = words_of(line, " \t=");
      for (std::size_t i = 1; i + 1 < words.size(); ++i) ranks.set(words[i], words[i + 1]);
    }
  }
  return ranks;
}

Variables set_by_slurm(const Ranks& ranks) {
  Variables variables;
  const auto set = [&](const char* name, const std::optional<int>& value) {
    if (!value) return;
    MarkedText text;
    text.add(std::to_string(*value), 0);
    variables[name] = {{text}, false};
  };
  set("SLURM_NNODES", ranks.nodes);
  set("SLURM_JOB_NUM_NODES", ranks.nodes);
  set("SLURM_GPUS_ON_NODE", ranks.each);
  set("SLURM_GPUS_PER_NODE", ranks.each);
  return variables;
}

Ranks from_variables(const Variables& variables) {
  Ranks ranks;
  for (const auto& [name, variable] : variables) {
    if (variable.values.size() != 1) continue;
    const std::string& text = variable.values.front().text;
    const std::string word = canonical_name(name);
    if (word == "nnodes" || word == "num-nodes") ranks.set("--nnodes", text);
    if (word == "gpus-per-node" || word == "nproc-per-node" || word == "num-gpus")
      ranks.set("--nproc-per-node", text);
    if (word == "world-size" || word == "ngpu") ranks.set("--gpus", text);
  }
  return ranks;
}

/// Numbers of ranks from the launcher before the program, the header of the job, or variables.
Ranks ranks_of(const std::vector<MarkedText>& words, std::size_t program, Ranks ranks,
               const Variables& variables) {
  for (std::size_t i = 0; i < program; ++i) {
    const auto equals = words[i].text.find('=');
    if (!is_flag(words[i].text)) continue;
    if (equals != std::string::npos) {
      ranks.set(words[i].text.substr(0, equals), words[i].text.substr(equals + 1));
    } else if (i + 1 < program) {
      ranks.set(words[i].text, words[i + 1].text);
    }
  }
  return ranks.product() ? ranks : from_variables(variables);
}

void add_documents(const exporters::Targets& targets, const ReadScript& read, const Script& script,
                   FoundKeys& found) {
  for (const HereDocument& document : read.documents) {
    MarkedText text = document.text;
    if (!document.literal) text = ShellWords(document.text, read.variables).document();
    const SourceLocation place = script.place(document.text.offset());
    try {
      for (FoundKey& key : keys_of_document(targets, {spelled(text.text), place.file})) {
        key.where.line += place.line - 1;
        found.keys.push_back(std::move(key));
      }
    } catch (const InputError&) {
      found.notes.push_back(place.file + ":" + std::to_string(place.line) +
                            ": a document in the script is not read");
    }
  }
}

}  // namespace

FoundKeys keys_of_scripts(const exporters::Targets& targets,
                          const std::vector<ConfigurationFile>& files,
                          const Definitions& definitions) {
  Script script;
  for (const ConfigurationFile& file : files) script.add(file.text, file.name);
  Variables defined;
  for (const auto& [name, value] : definitions) {
    MarkedText text;
    text.add(value, 0);
    defined[name] = {{text}, false};
  }
  const Ranks header = slurm_header(files);
  const ReadScript read = read_script(script.text(), defined, set_by_slurm(header));
  std::vector<MarkedText> best;
  std::size_t most = 0;
  for (const ShellCommand& command : read.commands) {
    std::vector<MarkedText> words;
    for (const MarkedText& word : command.words) spread(word, read.variables, 4, words);
    const std::size_t flags = flags_in(words, targets);
    if (flags == 0 || flags < most) continue;
    most = flags;
    best = std::move(words);
  }
  // A list of arguments that something else starts: everything that variables hold.
  std::vector<MarkedText> all;
  for (const MarkedText& text : read.arguments) spread(text, read.variables, 4, all);
  const bool listed = flags_in(all, targets) > 2 * most;
  const std::size_t program = listed ? 0 : behind_program(best);
  FoundKeys found;
  add_documents(targets, read, script, found);
  if (program > 0) found.program = spelled(best[program - 1].text);
  FlagReader(targets, script, found.keys, found.notes).read(listed ? all : best, program);
  std::vector<std::string> said;  // of the command itself
  for (const MarkedText& text : read.conditional) {
    std::vector<MarkedText> words;
    spread(text, read.variables, 4, words);
    FlagReader(targets, script, found.conditional, said).read(words, 0);
  }
  const Ranks ranks = ranks_of(best, listed ? 0 : program, header, read.variables);
  found.gpus = ranks.product();
  found.node_gpus = ranks.each;
  for (const std::string& file : read.sourced)
    found.notes.push_back("the script reads another file, which is not followed: " + file);
  return found;
}

}  // namespace plansearch::importers
