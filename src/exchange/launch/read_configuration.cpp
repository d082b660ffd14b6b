// SPDX-License-Identifier: Apache-2.0
#include "exchange/launch/read_configuration.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/ranges.hpp"
#include "exporters/export_plan.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch::importers {
namespace {

using exporters::Document;
using exporters::Exporter;
using exporters::Key;
using exporters::Reading;

/// A common name of targets, and the targets whose files it may mean.
struct Family {
  std::string_view name;
  std::vector<std::string_view> targets;
};

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies{
      {"megatron", {"megatron", "megatron-deepspeed"}},
      {"torchtitan", {"torchtitan", "torchtitan-0.2"}},
      {"deepspeed", {"deepspeed", "megatron-deepspeed"}},
      {"nemo", {"megatron"}},
      {"primus", {"megatron"}},
      {"gpt-neox", {"megatron-deepspeed"}},
      {"verl", {"verl", "verl-fsdp"}},
      {"hf", {"accelerate", "axolotl", "llama-factory"}},
  };
  return kFamilies;
}

std::vector<const Key*> rows_of(const Exporter& exporter, std::string_view name) {
  std::vector<const Key*> rows;
  for (const Document& document : exporter.documents) {
    for (const Key& key : document.keys) {
      if (exporters::without_plus(key.name) == name && key.read) rows.push_back(&key);
    }
  }
  return rows;
}

/// The target's name of a key: as it stands; a key of a configuration as an option of the program
/// ("--training.seq_len"); with dashes for underscores; an option as the last part of a path of YAML
/// ("model.tensor_model_parallel_size"). As it stands where the target has none of these.
std::string own_name(const Exporter& exporter, const std::string& name) {
  const bool option = name.starts_with("--");
  std::string plain = option ? name.substr(2) : name;
  const std::string last = "--" + name.substr(name.find_last_of('.') + 1);
  std::vector<std::string> spellings{name, plain};
  std::ranges::replace(plain, '-', '_');
  spellings.push_back(plain);
  if (!option) {
    spellings.push_back(last);
    std::ranges::replace(spellings.back(), '_', '-');
    spellings.push_back(last);
  }
  for (const std::string& spelling : spellings)
    if (!rows_of(exporter, spelling).empty()) return spelling;
  return name;
}

/// Keys that are spelled as the target's count twice those that mean them.
std::size_t known_keys(const Exporter& exporter, const std::vector<FoundKey>& keys) {
  std::size_t known = 0;
  for (const FoundKey& key : keys) {
    const std::string name = own_name(exporter, key.name);
    if (!rows_of(exporter, name).empty()) known += name == key.name ? 2 : 1;
  }
  return known;
}

/// The target that was named knows a few keys by their last words, and another one most as they stand.
void refuse_other_reader(const exporters::Targets& targets, const FoundKeys& found,
                         const std::string& called, std::size_t most) {
  constexpr std::size_t kTelling = 2;
  for (const Exporter* other : targets_called(targets, {})) {
    const std::size_t known = known_keys(*other, found.keys);
    if (known < kTelling * most) continue;
    throw InputError({found.file, 0, 0},
                     fmt::format("few of its keys are {}'s, most are {}'s", called, other->name),
                     fmt::format("--from {}, or leave --from out", other->name));
  }
}

const Exporter& best_target(const exporters::Targets& targets, const FoundKeys& found,
                            const std::string& called) {
  if (called.empty() && found.exported != nullptr) return *found.exported;
  const Exporter* best = nullptr;
  std::size_t most = 0;
  for (const Exporter* exporter : targets_called(targets, called)) {
    const std::size_t known = known_keys(*exporter, found.keys);
    if (known <= most) continue;
    most = known;
    best = exporter;
  }
  if (best != nullptr && !called.empty()) refuse_other_reader(targets, found, called, most);
  if (best != nullptr) return *best;
  throw InputError({found.file, 0, 0},
                   called.empty() ? "no key of a known framework is in it"
                                  : fmt::format("no key of {} is in it", called),
                   fmt::format("--from {}: launch scripts and configurations of these are read",
                               fmt::join(targets.readable_names(), ", ")));
}

[[noreturn]] void refuse_unknown(const FoundKey& key) {
  std::string name = *key.unknown;
  std::ranges::replace(name, '\x03', ' ');
  const bool command = name.starts_with("$(") || name.starts_with("`");
  throw InputError(key.where,
                   fmt::format("{} depends on {}, which is known only when the script runs",
                               key.name, command ? name : "$" + name),
                   fmt::format("--define {}=VALUE", command ? key.name : name));
}

void read_key(const FoundKey& key, const std::vector<const Key*>& rows, Reading& reading) {
  const bool empty_variable = key.unknown && key.value.is_boolean();
  const bool path = std::ranges::any_of(rows, [](const Key* row) { return row->is_path; });
  if (key.unknown && path && key.value.is_string()) {
    // "$HOME/models/NAME"
    const std::string text = key.value.get<std::string>();
    const std::string last = text.substr(text.find_last_of('/') + 1);
    if (last.find('$') == std::string::npos) rows.front()->read(reading, Value(last));
    return;
  }
  if (key.unknown && !empty_variable) refuse_unknown(key);
  reading.said[key.name] = key.value;
  for (const Key* row : rows) {
    try {
      row->read(reading, key.value);
    } catch (const exporters::WrongValue& wrong) {
      if (key.unknown) refuse_unknown(key);
      throw InputError(key.where, fmt::format("{}: {}", key.name, wrong.what()),
                       "see the framework's own documentation of the key");
    }
  }
}

/// Keys that the command line defines: "--define seq-length=2048" for "--seq-length" too.
void add_defined(const Exporter& target, const Definitions& definitions, FoundKeys& found) {
  for (const auto& [name, value] : definitions) {
    for (const std::string& spelling : {name, "--" + name}) {
      if (rows_of(target, spelling).empty()) continue;
      std::erase_if(found.keys, [&](const FoundKey& key) { return key.name == spelling; });
      found.keys.push_back({spelling, plain_value(value), {}});
    }
  }
}

void take_typed(const ProblemRequest& typed, Reading& reading) {
  reading.asked = completed(typed, reading.asked);
  for (const DegreeRow& row : degree_table()) {
    if (const auto value = typed.degrees.get(row.degree)) {
      row.set(reading.degrees, *value);
      reading.open.erase(row.degree);
    }
  }
  reading.asked.from_plan.clear();
}

enum class Form { Shell, Json, Yaml, Toml, Log };

bool ends_with(const std::string& name, std::initializer_list<const char*> endings) {
  return std::ranges::any_of(endings, [&](const char* ending) { return name.ends_with(ending); });
}

Form form_of(std::string_view text) {
  if (text.starts_with("#!")) return Form::Shell;
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') return Form::Json;
  std::size_t tables = 0, keys = 0, flags = 0;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const auto letter = line.find_first_not_of(" \t");
    if (letter == std::string_view::npos || line[letter] == '#') continue;
    if (line.find("--") != std::string_view::npos) ++flags;
    line.remove_prefix(letter);
    if (line.front() == '[' && line.find(']') != std::string_view::npos) ++tables;
    if (line.find(": ") != std::string_view::npos || line.ends_with(":")) ++keys;
  }
  if (flags > tables && flags > keys) return Form::Shell;
  if (tables > 0 && keys <= tables) return Form::Toml;
  return keys > 0 ? Form::Yaml : Form::Shell;
}

/// The form of a file by its name, else by its first letters. `logged`: the arguments that are
/// printed in it, where it has no such name.
Form form_of(const ConfigurationFile& file, const exporters::Targets& targets, FoundKeys& logged) {
  if (ends_with(file.name, {".json"})) return Form::Json;
  if (ends_with(file.name, {".yaml", ".yml"})) return Form::Yaml;
  if (ends_with(file.name, {".toml"})) return Form::Toml;
  if (ends_with(file.name, {".sh", ".slurm", ".sbatch", ".bash"})) return Form::Shell;
  logged = keys_of_log(targets, file);
  return logged.keys.empty() ? form_of(std::string_view(file.text)) : Form::Log;
}

std::vector<FoundKey> keys_in(Form form, const ConfigurationFile& file,
                              const Definitions& definitions) {
  if (form == Form::Json) return keys_of_json(file, definitions);
  if (form == Form::Yaml) return keys_of_yaml(file, definitions);
  return form == Form::Toml ? keys_of_toml(file) : std::vector<FoundKey>();
}

/// The target that the files were exported to, as their headers say; null where none says it.
/// InputError where it is one that is not read.
const Exporter* exported_to(const exporters::Targets& targets,
                            const std::vector<ConfigurationFile>& files) {
  for (const ConfigurationFile& file : files) {
    const std::string title = exporters::exported_header(file.text).title;
    if (title.empty()) continue;
    for (const Exporter* exporter : targets.all()) {
      if (exporter->title != title) continue;
      if (exporter->start) return exporter;
      throw InputError(
          {file.name, 0, 0},
          fmt::format("it was exported to {}, whose files are not read back", exporter->name),
          "give the plan file or result that it was exported from");
    }
  }
  return nullptr;
}

}  // namespace

std::vector<FoundKey> keys_of_document(const exporters::Targets& targets,
                                       const ConfigurationFile& document) {
  std::vector<FoundKey> keys = keys_in(form_of(std::string_view(document.text)), document, {});
  const bool known =
      std::ranges::any_of(keys, [&](const FoundKey& key) { return targets.has_key(key.name); });
  return known ? keys : std::vector<FoundKey>();
}

FoundKeys find_keys(const exporters::Targets& targets, const std::vector<ConfigurationFile>& files,
                    const Definitions& definitions) {
  const Exporter* exported = exported_to(targets, files);
  std::string network;
  std::vector<ConfigurationFile> scripts;
  std::vector<FoundKey> keys;
  std::optional<int> gpus;  // of a job, which knows more than the launcher in it
  bool is_log = false;
  for (const ConfigurationFile& file : files) {
    if (network.empty()) network = exporters::exported_header(file.text).network;
    FoundKeys logged;
    const Form form = form_of(file, targets, logged);
    JobScript job = form == Form::Yaml ? script_of_job(file) : JobScript{};
    if (form == Form::Shell) job.script = file.text;
    if (job.gpus > 0) gpus = job.gpus;
    if (logged.gpus) gpus = logged.gpus;
    if (form == Form::Log) {
      is_log = true;
      if (logged.exported != nullptr) exported = logged.exported;
      std::ranges::move(logged.keys, std::back_inserter(keys));
    } else if (form == Form::Shell || !job.script.empty()) {
      scripts.push_back({std::move(job.script), file.name});
    } else {
      std::ranges::move(keys_in(form, file, definitions), std::back_inserter(keys));
    }
  }
  FoundKeys found;
  try {
    if (!scripts.empty()) found = keys_of_scripts(targets, scripts, definitions);
  } catch (const InputError& error) {
    if (!error.where().file.empty()) throw;
    throw InputError({scripts.front().name, 0, 0}, error.what(), error.hint());
  }
  if (gpus) found.gpus = gpus;
  found.logged = is_log;
  found.keys.insert(found.keys.begin(), keys.begin(), keys.end());
  found.file = files.empty() ? std::string() : files.front().name;
  found.exported = exported;
  found.network = std::move(network);
  return found;
}

std::vector<const Exporter*> targets_called(const exporters::Targets& targets,
                                            const std::string& name) {
  const auto is_called = [&](std::string_view target) {
    if (name.empty() || target == name) return true;
    return std::ranges::any_of(families(), [&](const Family& family) {
      return family.name == name && contains(family.targets, target);
    });
  };
  std::vector<const Exporter*> called;
  for (const std::string& target : targets.readable_names()) {
    if (!is_called(target)) continue;
    if (const Exporter* exporter = targets.find(target); exporter->start)
      called.push_back(exporter);
  }
  if (!called.empty()) return called;
  throw InputError({}, fmt::format("--from {}: no such framework is read", name),
                   fmt::format("one of {}, nemo, primus, gpt-neox, hf",
                               fmt::join(targets.readable_names(), ", ")));
}

ReadConfiguration read_configuration(const exporters::Targets& targets, FoundKeys found,
                                     const Typed& typed) {
  ReadConfiguration result;
  result.target = &best_target(targets, found, typed.target);
  add_defined(*result.target, typed.definitions, found);
  Reading& reading = result.reading;
  result.target->start(reading);
  for (FoundKey& key : found.keys) {
    key.name = own_name(*result.target, key.name);
    const auto rows = rows_of(*result.target, key.name);
    if (rows.empty()) {
      result.unread.push_back(key);
    } else {
      read_key(key, rows, reading);
    }
  }
  for (const FoundKey& key : found.conditional) {
    if (rows_of(*result.target, key.name).empty() || reading.says(key.name)) continue;
    result.notes.push_back(fmt::format(
        "{}:{}: {} stands behind a condition that is known only when the script runs: not read",
        key.where.file, key.where.line, key.name));
  }
  reading.program = found.program;
  if (!reading.asked.gpus && found.gpus) reading.asked.gpus = found.gpus;
  if (!reading.asked.gpus && reading.knows("nodes") && reading.knows("node_gpus"))
    reading.asked.gpus =
        exporters::count_in(reading.fact("nodes")) * exporters::count_in(reading.fact("node_gpus"));
  reading.node_gpus = typed.node_gpus > 0 ? typed.node_gpus : found.node_gpus.value_or(0);
  if (reading.model.layers == 0) reading.model.layers = typed.layers;
  take_typed(typed.request, reading);
  const std::string& file = found.keys.empty() ? found.file : found.keys.front().where.file;
  try {
    if (result.target->settle) result.target->settle(reading);
  } catch (const exporters::Unsettled& unsettled) {
    throw InputError({file, 0, 0}, unsettled.what(), unsettled.remedy);
  } catch (const exporters::WrongValue& wrong) {
    throw InputError({file, 0, 0}, wrong.what());
  }
  result.notes.insert(result.notes.begin(), found.notes.begin(), found.notes.end());
  result.notes.insert(result.notes.end(), reading.notes.begin(), reading.notes.end());
  return result;
}

}  // namespace plansearch::importers
