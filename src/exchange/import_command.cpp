// SPDX-License-Identifier: Apache-2.0
// The command `import`: from the configuration of another program to a plan file.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "answer/export_question.hpp"
#include "base/names.hpp"
#include "base/ranges.hpp"
#include "cli/command_row.hpp"
#include "cli/commands.hpp"
#include "cli/option_kinds.hpp"
#include "cli/output.hpp"
#include "exchange/launch/read_configuration.hpp"
#include "exporters/megatron_reading.hpp"
#include "io/document/file.hpp"
#include "io/model/model_writer.hpp"
#include "io/model/network_names.hpp"
#include "io/plan/plan_document.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/transformer_builder.hpp"
#include "question/logged_plan.hpp"

namespace plansearch {
namespace {

struct ImportQuestion {
  std::vector<std::string> files;  ///< "-" is standard input
  std::string from;                ///< empty: told by the keys
  std::map<std::string, std::string, std::less<>> definitions;
  std::string model_file;  ///< where the network goes when none that ships is the same
};

struct ImportResult {
  io::PlanDocument plan;
  std::string header;  ///< of its file
  std::string model;   ///< a model file, for a network of its own; else empty
  std::vector<std::string> notes;
};

using exporters::Reading;

/// The model without fields that make no difference to parameters, time and memory, and those that
/// launch files do not have.
ModelDescription bare(ModelDescription model) {
  model.name.clear();
  model.source.clear();
  model.max_positions.reset();
  if (model.attention.positions != PositionKind::Learned) model.embedding.position_rows = 0;
  model.attention.repeats_heads = model.attention.fused_projection = false;
  model.training = {};
  model.tower.reset();
  exporters::respell_layers(model);
  const auto dense = [](const std::string& letters) { return letters.ends_with('-'); };
  if (model.moe && std::ranges::none_of(model.list.layer_mixers, dense)) {
    model.moe->imbalance = 1.0;
    if (model.moe->leading_dense == 0 && model.moe->every == 1 && model.moe->dense_layers.empty()) {
      model.mlp.width = model.moe->expert_width;  // no layer has the dense one
      model.mlp.bias = model.moe->expert_bias;
    }
  }
  return model;
}

ModelDescription without_vocabulary(ModelDescription model) {
  model.embedding.vocab = 0;
  return model;
}
ModelDescription without_dropout(ModelDescription model) {
  model.dropout = model.attention_dropout = 0.0;
  return model;
}

/// Named by its sizes and its parameters.
bool is_named(const Reading& reading, const ModelDescription& model) {
  const ModelDescription& read = reading.model;
  return model.stack == StackKind::Decoder && model.layers == read.layers &&
         model.hidden == read.hidden && model.attention.heads == read.attention.heads &&
         model.embedding.vocab == read.embedding.vocab &&
         parameter_count(build_network(model)) == *reading.parameters;
}

/// A shipped network of the sizes that the file describes. Its tokenizer, which is another file,
/// has the vocabulary.
struct Match {
  std::string name;
  std::int64_t vocabulary = 0;
  bool whole = true;  ///< with the dropout of the file
};

std::vector<Match> find_shipped(const Reading& reading, const ShippedData& data) {
  std::vector<Match> matches;
  const ModelDescription wanted = bare(reading.model);
  const bool open = wanted.embedding.vocab == 0;
  for (const ShippedFile& file : data.models()) {
    const ModelDescription known = data.model(file.name).description;
    if (known.graph) continue;
    if (reading.parameters) {
      if (is_named(reading, known)) matches.assign(1, {file.name, known.embedding.vocab});
      continue;
    }
    if (known.layers != wanted.layers || known.hidden != wanted.hidden) continue;
    const ModelDescription other = open ? without_vocabulary(bare(known)) : bare(known);
    if (other == wanted) {
      matches.push_back({file.name, known.embedding.vocab});
    } else if (open && without_dropout(other) == without_dropout(wanted)) {
      matches.push_back({file.name, known.embedding.vocab, false});
    }
  }
  return matches;
}

/// The only vocabulary, or that of the network that the file was exported with.
std::optional<std::int64_t> vocabulary_of(const std::vector<Match>& matches,
                                          const std::string& exported) {
  std::set<std::int64_t> words;
  for (const Match& match : matches) {
    if (match.name == exported) return match.vocabulary;
    words.insert(match.vocabulary);
  }
  return words.size() == 1 ? std::optional(*words.begin()) : std::nullopt;
}

/// The shipped network of a name such as "meta-llama/Llama-3.1-8B-Instruct": the last part of the
/// path, without what says how it was trained on.
std::string shipped_name(const std::string& named, const ShippedData& data) {
  std::string name = canonical_name(named.substr(named.find_last_of('/') + 1));
  for (const char* mark : {"meta-", "megatron-"})
    if (name.starts_with(mark)) name.erase(0, std::string_view(mark).size());
  std::vector<std::string> tries{name};
  for (const char* mark :
       {"-instruct", "-base", "-chat", "-hf", "-it", "-pt", "-v0.1", "-v0.3", "-2507"}) {
    if (name.ends_with(mark)) name.erase(name.size() - std::string_view(mark).size());
    tries.push_back(name);
  }
  for (const ShippedFile& file : data.models()) {
    std::vector<std::string> words{canonical_name(file.name)};
    for (const std::string& alias : file.aliases) words.push_back(canonical_name(alias));
    for (const std::string& word : words) {
      if (contains(tries, word)) return file.name;
    }
  }
  return {};
}

/// Takes the vocabulary of the published network of the file's sizes, which has none, and says so.
void settle_vocabulary(const std::string& file, const std::vector<Match>& matches,
                       const std::string& exported, Reading& reading, ImportResult& result) {
  const auto words = vocabulary_of(matches, exported);
  if (!words) {
    std::set<std::int64_t> known;
    for (const Match& match : matches) known.insert(match.vocabulary);
    throw InputError(
        {file, 0, 0}, "the number of words is the tokenizer's, which is not in the file",
        known.empty()
            ? std::string("--define vocab-size=N, or --model NAME")
            : fmt::format("--define vocab-size={}, or --model NAME", fmt::join(known, " or ")));
  }
  result.notes.push_back(
      fmt::format("{} words, as the published network of these sizes has", *words));
  reading.model.embedding.vocab = *words;
}

/// The model of the plan: a shipped name, or the file that holds `text`.
void settle_model(const ImportQuestion& question, Reading& reading, const ShippedData& data,
                  const std::string& exported, ImportResult& result, std::string& model) {
  const std::string& first = question.files.front();
  if (!model.empty()) return;  // typed
  const io::NetworkNames networks(data.directory() / "models" / "families");
  if (!reading.has_model && !reading.named.empty()) {
    model = shipped_name(reading.named, data);
    if (!model.empty()) return;
    const std::string reason = networks.reason_against(reading.named);
    result.notes.push_back(fmt::format("{}: no shipped model has this name{}: --model NAME",
                                       io::in_quotes(reading.named),
                                       reason.empty() ? "" : fmt::format(" ({})", reason)));
    return;
  }
  if (!reading.has_model) {
    if (reading.parameters.has_value() == false)
      result.notes.emplace_back("the file does not describe the network: --model NAME");
    return;
  }
  if (const std::string reason = networks.reason_against(reading.named); !reason.empty()) {
    throw InputError({first, 0, 0},
                     fmt::format("{} is not the network that the keys describe: {}",
                                 io::in_quotes(reading.named), reason),
                     "--model NAME (docs/models.md says how to describe a network)");
  }
  const std::vector<Match> matches = find_shipped(reading, data);
  if (reading.parameters && matches.empty())
    throw InputError({first, 0, 0}, "no shipped model is the network that the file names",
                     "--model NAME");
  if (reading.model.embedding.vocab == 0)
    settle_vocabulary(first, matches, exported, reading, result);
  const auto same = [&](const Match& match) {
    return match.whole && match.vocabulary == reading.model.embedding.vocab;
  };
  const auto match = std::ranges::find_if(matches, same);
  if (match != matches.end()) {
    model = match->name;
    return;
  }
  if (question.model_file.empty()) {
    throw InputError({first, 0, 0}, "its network is none of the models that ship",
                     "plansearch import FILE --out PLAN writes it beside the plan, --write-model "
                     "FILE elsewhere");
  }
  ModelDescription& own = reading.model;
  own.name = std::filesystem::path(question.model_file).stem().string();
  own.source = fmt::format("read from {}", std::filesystem::path(first).filename().string());
  own.training.seq_len = reading.asked.seq_len.value_or(2048);
  own.training.global_batch = reading.asked.batch.value_or(1);
  const std::vector<std::string> wrong = contradictions(own);
  if (!wrong.empty()) throw InputError({first, 0, 0}, fmt::format("{}", fmt::join(wrong, "; ")));
  result.model = io::to_yaml(own);
  model = question.model_file;
}

io::StagesDocument stages_document(const Reading& reading) {
  const PlanDegrees& d = reading.degrees;
  io::StagesDocument document;
  document.schedule = d.schedule;
  document.micro_batches = d.micro_batches;
  for (int p = 0; p < d.pipeline; ++p) {
    io::StageEntry entry;
    for (const DegreeRow& row : degree_table()) {
      if (!kPipelineDegrees.contains(row.degree) && row.get(d) != row.get(PlanDegrees{}))
        entry.degrees.pin(row.degree, row.get(d));
    }
    for (int c = 0; c < d.chunks; ++c) {
      const auto& stage = reading.stages.at(static_cast<std::size_t>(c * d.pipeline + p));
      entry.chunks.push_back({stage.layers, {}});
    }
    document.stages.push_back(std::move(entry));
  }
  return document;
}

io::PlanDocument plan_document(Reading& reading) {
  io::PlanDocument document;
  document.question = reading.asked;
  document.question.degrees = {};
  if (!reading.stages.empty() && !exporters::is_even(reading.stages)) {
    document.stages = stages_document(reading);
    return document;
  }
  for (const DegreeRow& row : degree_table()) {
    const bool axis = row.degree == Degree::TensorIn || row.degree == Degree::TensorDepth;
    if (axis || reading.open.contains(row.degree)) continue;
    document.question.degrees.pin(row.degree, row.get(reading.degrees));
  }
  return document;
}

/// Keys of one file that say nothing of a plan, with their lines.
void add_unread(const std::string& file, const std::vector<importers::FoundKey>& unread,
                std::vector<std::string>& notes) {
  std::vector<std::string> words;
  for (const importers::FoundKey& key : unread) {
    if (key.where.file == (file == io::kStandardInput ? "stdin" : file))
      words.push_back(fmt::format("{} ({})", key.name, key.where.line));
  }
  if (words.empty()) return;
  notes.push_back(fmt::format("{}: not read, with their lines: {}", file, fmt::join(words, ", ")));
}

std::string header_of(const ImportQuestion& question, const importers::ReadConfiguration& read) {
  std::string text;
  for (const std::string& file : question.files)
    text += fmt::format("# from {}, read as {}\n", io::in_quotes(file), read.target->name);
  return text;
}

std::vector<importers::ConfigurationFile> read_files(const std::vector<std::string>& names) {
  std::vector<importers::ConfigurationFile> files;
  for (const std::string& file : names)
    files.push_back({io::read_file(file), file == io::kStandardInput ? "stdin" : file});
  return files;
}

/// `typed`: settings and degrees of the command line, which win over the files. InputError, with
/// its place, for what cannot be read or is not known.
ImportResult import_question(const ImportQuestion& question, const ProblemRequest& typed,
                             const ShippedData& data, const exporters::Targets& targets,
                             const importers::FoundKeys& found) {
  importers::Typed beside{question.from, typed, question.definitions};
  if (!typed.hardware.empty())
    beside.node_gpus = data.cluster(typed.hardware).accelerators_per_node;
  if (!typed.model.empty()) beside.layers = data.model(typed.model).description.layers;
  importers::ReadConfiguration read = importers::read_configuration(targets, found, beside);
  ImportResult result;
  for (const std::string& file : question.files) {
    if (!found.logged) add_unread(file, read.unread, result.notes);
  }
  result.notes.insert(result.notes.end(), read.notes.begin(), read.notes.end());
  settle_model(question, read.reading, data, found.network, result, read.reading.asked.model);
  result.header = header_of(question, read);
  result.plan = plan_document(read.reading);
  return result;
}

/// The text at the head of a log; its arguments stand there.
std::string head_of(const std::string& log) {
  constexpr std::size_t kHead = std::size_t{16} << 20U;
  std::ifstream file(log, std::ios::binary);
  std::string text(kHead, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

std::optional<PlanRequest> plan_in_log(const std::string& log, const ProblemRequest& typed,
                                       std::vector<std::string>& notes) {
  if (log == io::kStandardInput) return std::nullopt;  // comes once
  const ShippedData& data = shipped_data();
  const exporters::Targets targets(data.directory());
  const importers::FoundKeys found = importers::keys_of_log(targets, {head_of(log), log});
  if (found.keys.empty()) return std::nullopt;
  ImportResult read = import_question({{log}, {}, {}, {}}, typed, data, targets, found);
  notes.insert(notes.end(), read.notes.begin(), read.notes.end());
  notes.push_back(fmt::format("{}: the plan is that of the arguments that are printed in it", log));
  return PlanRequest{completed(typed, read.plan.question), std::move(read.plan.stages), {}, {}};
}

}  // namespace plansearch

namespace plansearch::cli {
namespace {

struct ImportOptions {
  std::vector<std::string> files;
  std::string from;                      ///< a framework
  std::vector<std::string> definitions;  ///< NAME=VALUE
  std::string write_model;
};

/// "plan.yaml" has its network in "plan.model.yaml".
std::string model_file_of(const Options& options, const ImportOptions& own) {
  if (!own.write_model.empty() || options.out.empty()) return own.write_model;
  std::filesystem::path path(options.out);
  return path.replace_extension(".model.yaml").string();
}

int run_import(const Options& options, const ImportOptions& own) {
  const Output output(options);
  ImportQuestion question{own.files, own.from, {}, model_file_of(options, own)};
  for (const std::string& definition : own.definitions) {
    const auto equals = definition.find('=');
    question.definitions[definition.substr(0, equals)] = definition.substr(equals + 1);
  }
  const ShippedData& data = shipped_data();
  const exporters::Targets targets(data.directory());
  const ImportResult result =
      import_question(question, options, data, targets,
                      find_keys(targets, read_files(own.files), question.definitions));
  if (!result.model.empty()) io::write_file(question.model_file, result.model);
  output.write(result.header + io::to_yaml(result.plan));
  for (const std::string& note : result.notes) print_note(note, options);
  return kExitOk;
}

void add_import(CLI::App& app, Options& /*shared*/, ImportOptions& o) {
  add_typed(app, "FILE", "files", o.files,
            "launch scripts and configurations of one run; - for a pipe")
      ->required();
  restrict_to(app.add_option("--from", o.from, "the framework (default: told by the keys)"),
              import_names());
  add_typed(app, "NAME=VALUE", "--define", o.definitions,
            "a variable of a script, or a key that no file has (vocab-size=32000)")
      ->check([](const std::string& text) {
        return text.find('=') == std::string::npos || text.front() == '='
                   ? fmt::format("'{}' is not NAME=VALUE", text)
                   : std::string();
      });
  add_typed(app, "FILE", "--write-model", o.write_model,
            "where the network goes when none that ships is the same (default: beside --out)");
}

}  // namespace

std::span<const CommandRow> exchange_commands() {
  static constexpr std::array kRows{
      CommandRow{"import", "a plan from a launch script or configuration of a framework",
                 Shares::Plan, bind_own<ImportOptions, run_import, add_import>}};
  return kRows;
}

}  // namespace plansearch::cli
