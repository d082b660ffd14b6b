// SPDX-License-Identifier: Apache-2.0
#include "io/model/model_reader.hpp"

#include <fmt/format.h>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/fields.hpp"
#include "io/document/raw_value.hpp"
#include "io/model/family_file.hpp"
#include "io/model/graph/block_reader.hpp"
#include "io/model/graph/graph_words.hpp"
#include "io/model/model_sections.hpp"
#include "io/model/network_names.hpp"
#include "plansearch/transformer_builder.hpp"

namespace plansearch::io {
namespace {

constexpr std::string_view kModelSchema = "plansearch/model/v1";
constexpr double kMostParameters = 1e16;

void require_schema(const Node& root) {
  if (!root.find("schema")) {
    root.fail("this is not a model: neither 'schema' nor 'model_type' is there",
              fmt::format("write schema: {}, or use a Hugging Face config.json", kModelSchema));
  }
  const Node schema = root.at("schema");
  if (schema.text() == kModelSchema || schema.text() == kGraphSchema) return;
  schema.fail(fmt::format("'{}' is not a model file", schema.text()),
              fmt::format("write schema: {}, or {}", kModelSchema, kGraphSchema));
}

void check_sizes(const Node& root, const ModelDescription& model) {
  const std::vector<std::string> wrong = contradictions(model);
  if (!wrong.empty()) root.fail(fmt::format("{}", fmt::join(wrong, "; ")));
}

/// Patterns that freeze nothing or everything, and adapters the model has no place for.
void check_trained(const Node& root, const ModelDescription& model) {
  const TrainingDefaults& training = model.training;
  if (training.lora) {
    const auto wrong = adapter_problem(model);
    if (wrong) root.at("training").at("lora").fail(wrong->what, wrong->remedy);
  }
  if (training.frozen.empty()) return;
  const Node frozen = root.at("training").at("frozen");
  const Network network = build_network(model);
  const std::vector<std::string> missed = patterns_without_match(network, training.frozen);
  if (!missed.empty()) {
    std::string hint = did_you_mean(missed.front(), parameter_names(network));
    if (hint.empty())
      hint = "names are block/parameter, such as " + parameter_names(network).front();
    frozen.fail(fmt::format("no parameter matches '{}'", missed.front()), hint);
  }
  if (trainable_parameter_count(network) == 0) {
    frozen.fail("every parameter is frozen", "leave something to train");
  }
}

void check_count(const Node& root, const Network& network) {
  double total = 0.0;
  for (const BlockRun& run : network.order) {
    total +=
        static_cast<double>(run.count) * block_parameter_count(network, network.blocks[run.block]);
  }
  if (total > kMostParameters) {
    root.fail(fmt::format("the sizes make {:.3g} parameters", total),
              "check layers, hidden, the MLP width and the number of experts");
  }
}

std::int64_t checked_parameter_count(const Node& root, ModelDescription model) {
  model.training.lora.reset();  // published counts are those of the base
  const Network network = build_network(model);
  check_count(root, network);
  if (model.tower) check_count(root, *model.tower->network);
  return parameter_count(network);
}

NamedFiles model_files(std::span<const std::filesystem::path> directories) {
  NamedFiles kind;
  kind.what = "model";
  kind.directories = {directories.begin(), directories.end()};
  kind.extensions = {".yaml", ".json"};
  kind.listing = "models";
  kind.otherwise = "any other network by its Hugging Face config.json or the folder that holds it";
  if (!directories.empty()) {
    kind.plainer = [families = directories.front() / "families"](const std::string& name) {
      return plainer_names(name, families);
    };
  }
  return kind;
}

ModelFile read_own(const Node& root, const std::filesystem::path& families) {
  require_schema(root);
  ModelFile file;
  file.model =
      root.at("schema").text() == kGraphSchema ? read_graph(root) : read_sections(root, families);
  Fields(root).take("aliases", file.aliases, &Node::texts);
  Fields(root).take("parameters", file.published_parameters, kPositive);
  root.finish();
  check_sizes(root, file.model);
  check_trained(root, file.model);
  const std::int64_t count = checked_parameter_count(root, file.model);
  if (file.published_parameters.has_value() && *file.published_parameters != count) {
    root.at("parameters")
        .fail(
            fmt::format("the sizes make {} parameters, not {}", count, *file.published_parameters));
  }
  return file;
}

/// A network of another program, read as the graph file that it becomes, whose errors have no place in the user's file.
ModelFile read_imported(const std::filesystem::path& path, const std::string& name,
                        const std::filesystem::path& families, const std::filesystem::path& stubs,
                        std::span<const Override> overrides) {
  const Document document = read_import(path, stubs, families);
  try {
    return read_model(overlaid(document, overrides), name);
  } catch (const InputError& error) {
    throw InputError({path.string(), 0, 0},
                     fmt::format("as a graph file it is refused: {}", error.what()), error.hint());
  }
}

/// A network with other sizes has other parameters than those that were published.
Document changed(const Document& document, std::span<const Override> overrides) {
  if (overrides.empty() || !document.root().is_map()) return document;
  RawValue root = document.raw();
  std::erase_if(root.entries, [](const RawEntry& entry) { return entry.key == "parameters"; });
  return overlaid(Document::made(std::move(root), document.hash(), document.file()), overrides);
}

ModelFile read_changed(const std::filesystem::path& path, const std::filesystem::path& families,
                       std::span<const Override> overrides, const std::filesystem::path& stubs) {
  // A directory of a downloaded model is as good a name as its config.json.
  std::string name = path.stem().string();
  if (name == "config") {
    const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
    name = (folder.lexically_normal() / "").parent_path().filename().string();
  }
  if (path == kStandardInput) name = "stdin";
  const std::filesystem::path own = families.empty() ? path.parent_path() / "families" : families;
  if (is_import(path)) return read_imported(path, name, own, stubs, overrides);
  if (!stubs.empty()) {
    throw InputError({path.string(), 0, 0},
                     fmt::format("--operators {}: only networks of other programs have operators "
                                 "that are not known",
                                 stubs.string()),
                     "leave --operators out, or name a .pt2 or .onnx file");
  }
  return read_model(changed(Document::read(path), overrides), name.empty() ? "model" : name, own);
}

/// The file of a name; one that is known, and that no file describes, is refused with the reason.
std::filesystem::path file_named(std::string_view name,
                                 std::span<const std::filesystem::path> directories,
                                 const std::filesystem::path& families) {
  try {
    return resolve_file(name, model_files(directories));
  } catch (const InputError& error) {
    const std::string reason = NetworkNames(families).reason_against(name);
    if (reason.empty()) throw;
    throw InputError(error.where(), fmt::format("{}: {}", error.what(), reason),
                     "docs/models.md says how to describe a network");
  }
}

std::string name_of(const Node& root, const std::string& fallback) {
  const std::optional<Node> named = root.find("_name_or_path");
  if (!named.has_value() || !named->is_scalar()) return fallback;
  const std::string path = named->text();
  const std::string last = path.substr(path.find_last_of('/') + 1);
  return last.empty() ? fallback : last;
}

void add_text(RawValue& map, std::string key, std::string text) {
  RawValue value = value_at(map, RawKind::Quoted, std::move(text));
  map.entries.push_back({std::move(key), map.line, map.column, std::move(value)});
}

/// Towers other than the text: maps called vision_config, audio_config and the like.
std::vector<std::string> other_parts(const Node& root) {
  std::vector<std::string> parts;
  for (const Node::Entry& entry : root.entries()) {
    for (const std::string_view part :
         {"vision", "audio", "speech", "video", "talker", "thinker"}) {
      const bool tower = entry.value.is_map() && entry.key.starts_with(part);
      if (tower && entry.key.ends_with("_config")) parts.push_back(entry.key);
    }
  }
  return parts;
}

/// The user's own file (`--family`, or `--set model.family=FILE`), else the one that ships.
Document family_document(const Node& root, const std::string& family,
                         const std::filesystem::path& families, const Node& type) {
  const auto own = root.find(kOwnFamily);
  return own && is_set_place(own->where()) ? read_family_file(own->text(), families)
                                           : read_family(family, families, type);
}

}  // namespace

bool is_import(const std::filesystem::path& path) {
  return path.extension() == ".pt2" || path.extension() == ".onnx";
}

ModelFile read_model(const Document& document, const std::string& fallback_name,
                     const std::filesystem::path& families) {
  const Node root = document.root();
  if (!root.is_map()) {
    root.fail("expected a model file: a map with the key 'schema'",
              "or a Hugging Face config.json with 'model_type'; see docs/models.md");
  }
  ModelFile file;
  if (!root.find("schema") && (root.find("model_type") || root.find(kClassName))) {
    file.format = ModelFormat::HuggingFace;
    HfModel read = read_hf_config(root, fallback_name, families);
    file.model = std::move(read.model);
    file.left_out = std::move(read.left_out);
    file.passed_over = std::move(read.passed_over);
    check_sizes(root, file.model);
    static_cast<void>(checked_parameter_count(root, file.model));
  } else {
    file = document.collect([&](const Node& own) { return read_own(own, families); });
  }
  file.hash = document.hash();
  return file;
}

ModelFile read_model(const std::filesystem::path& path, const std::filesystem::path& families) {
  return read_changed(path, families, {}, {});
}

ModelFile load_model(std::string_view name_or_path,
                     std::span<const std::filesystem::path> directories,
                     std::span<const Override> overrides, const std::filesystem::path& stubs) {
  const std::filesystem::path families =
      directories.empty() ? std::filesystem::path() : directories.front() / "families";
  std::filesystem::path path = file_named(name_or_path, directories, families);
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    const std::filesystem::path config = path / "config.json";
    if (!std::filesystem::exists(config, error)) {
      throw InputError({path.string(), 0, 0}, "this directory has no config.json",
                       "name a model file, or the folder of a Hugging Face model (of a pipeline of "
                       "diffusers, that of its transformer)");
    }
    path = config;
  }
  return read_changed(path, families, overrides, stubs);
}

std::vector<NamedFile> list_models(std::span<const std::filesystem::path> directories) {
  return list_files(model_files(directories));
}

HfModel read_hf_config(const Node& root, const std::string& name,
                       const std::filesystem::path& families) {
  const std::optional<Node> inner = root.find("text_config");
  const Node& config = inner.has_value() ? *inner : root;
  const std::optional<Node> own_type = config.find("model_type");
  const Node type = own_type.has_value()      ? *own_type
                    : root.find("model_type") ? root.at("model_type")
                                              : root.at(kClassName);
  const std::string family = type.text();
  const Document document = family_document(root, family, families, type);
  const Node rules = document.root();

  HfModel read;
  if (const auto classes = root.find("architectures")) {
    const std::string bare = require_described(*classes, rules, families);
    if (!bare.empty()) read.passed_over.push_back("architectures " + bare + " (no head)");
  }
  HfKeys keys(config, rules.find("defaults"));
  if (inner.has_value()) {
    // transformers ties the head of a composite network by its outer configuration.
    if (const auto tied = root.find("tie_word_embeddings")) {
      keys.replace("tie_word_embeddings", *tied);
    }
  }
  const bool templated = rules.find("graph").has_value();
  RawValue sections =
      templated ? filled_template(rules, keys, family) : apply_family(rules, keys, family);
  add_text(sections, "name", name_of(root, name));
  const std::string key = type.path().substr(type.path().rfind('.') + 1);
  add_text(sections, "source", fmt::format("Hugging Face configuration, {} {}", key, family));
  const std::string file = root.where().file;
  const Document made = Document::made(std::move(sections), 0, file);

  read.model = templated ? read_graph(made.root()) : read_sections(made.root(), families);
  made.root().finish();
  read.model.training.assumed = true;
  read.left_out = other_parts(root);
  if (const auto tower = root.find("vision_config"); tower && tower->is_map()) {
    try {
      read.model.tower = read_tower(*tower, read.model.hidden, families, read.passed_over);
    } catch (const InputError&) {
      // A tower of other parts is left out, as `left_out` says; the text is the same.
    }
  }
  for (std::string& key : unknown_keys(rules, keys)) {
    const bool part = contains(read.left_out, key);
    if (!part) read.passed_over.push_back(std::move(key));
  }
  return read;
}

}  // namespace plansearch::io
