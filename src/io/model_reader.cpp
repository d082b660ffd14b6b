// SPDX-License-Identifier: Apache-2.0
#include "io/model_reader.hpp"

#include <fmt/format.h>

#include "io/hf_config.hpp"
#include "io/model_sections.hpp"
#include "plansearch/transformer_builder.hpp"

namespace plansearch::io {
namespace {

constexpr std::string_view kSchema = "plansearch/model/v1";
constexpr double kMostParameters = 1e16;

constexpr Choice<StackKind> kStacks[] = {{"decoder", StackKind::Decoder},
                                         {"encoder", StackKind::Encoder},
                                         {"encoder-decoder", StackKind::EncoderDecoder},
                                         {"vision", StackKind::Vision}};

void require_schema(const Node& root) {
  if (!root.find("schema")) {
    root.fail("this is no model: neither 'schema' nor 'model_type' is there",
              fmt::format("write schema: {}, or use a Hugging Face config.json", kSchema));
  }
  const Node schema = root.at("schema");
  if (schema.text() == kSchema) return;
  schema.fail(fmt::format("'{}' is not a model file", schema.text()),
              fmt::format("write schema: {}", kSchema));
}

ModelDescription read_sections(const Node& root) {
  ModelDescription model;
  model.name = root.at("name").text();
  model.source = root.at("source").text();
  model.stack = read_choice<StackKind>(root, "stack", kStacks, StackKind::Decoder);
  model.layers = root.at("layers").integer(kLayerRange);
  model.hidden = root.at("hidden").integer(kSizeRange);
  model.max_positions = read_optional(root, "max_positions", kLengthRange);
  model.mtp_layers = read_integer(root, "mtp_layers", kSmallRange, 0);
  model.attention = read_attention(root.at("attention"), model.hidden);
  if (const auto node = root.find("mlp")) model.mlp = read_mlp(*node, model.hidden);
  if (const auto node = root.find("norm")) model.norm = read_norm(*node);
  if (const auto node = root.find("embedding")) {
    model.embedding = read_embedding(*node, model.attention.positions, model.max_positions);
  }
  if (const auto node = root.find("dropout")) {
    model.dropout = read_fraction(*node, "residual");
    model.attention_dropout = read_fraction(*node, "attention");
  }
  if (const auto node = root.find("experts")) model.moe = read_experts(*node);
  if (const auto node = root.find("decoder")) model.decoder = read_decoder(*node, model);
  if (const auto node = root.find("vision")) model.vision = read_vision(*node);
  model.training = read_training(root.at("training"), model.stack);
  return model;
}

void check_sizes(const Node& root, const ModelDescription& model) {
  const std::vector<std::string> wrong = contradictions(model);
  if (!wrong.empty()) root.fail(fmt::format("{}", fmt::join(wrong, "; ")));
}

std::int64_t checked_parameter_count(const Node& root, const ModelDescription& model) {
  const Network network = build_network(model);
  double total = 0.0;
  for (const BlockRun& run : network.order) {
    total +=
        static_cast<double>(run.count) * block_parameter_count(network, network.blocks[run.block]);
  }
  if (total > kMostParameters) {
    root.fail(fmt::format("the sizes make {:.3g} parameters", total),
              "check layers, hidden, the MLP width and the number of experts");
  }
  return parameter_count(network);
}

NamedFiles model_files(std::span<const std::filesystem::path> directories) {
  NamedFiles kind;
  kind.what = "model";
  kind.directories = {directories.begin(), directories.end()};
  kind.extensions = {".yaml", ".json"};
  return kind;
}

std::vector<std::string> read_aliases(const Node& root) {
  std::vector<std::string> aliases;
  if (const auto list = root.find("aliases")) {
    for (const Node& item : list->items()) aliases.push_back(item.text());
  }
  return aliases;
}

ModelFile read_own(const Node& root) {
  require_schema(root);
  ModelFile file;
  file.model = read_sections(root);
  file.aliases = read_aliases(root);
  file.published_parameters = read_optional(root, "parameters", kPositive);
  root.finish();
  check_sizes(root, file.model);
  const std::int64_t count = checked_parameter_count(root, file.model);
  if (file.published_parameters.has_value() && *file.published_parameters != count) {
    root.at("parameters")
        .fail(
            fmt::format("the sizes make {} parameters, not {}", count, *file.published_parameters));
  }
  return file;
}

}  // namespace

ModelFile read_model(const Document& document, const std::string& fallback_name) {
  const Node root = document.root();
  if (!root.is_map()) {
    root.fail("expected a model file: a map with the key 'schema'",
              "or a Hugging Face config.json with 'model_type'; see docs/models.md");
  }
  ModelFile file;
  if (!root.find("schema") && root.find("model_type")) {
    file.format = ModelFormat::HuggingFace;
    file.model = read_hf_config(root, fallback_name);
    check_sizes(root, file.model);
    static_cast<void>(checked_parameter_count(root, file.model));
  } else {
    file = read_own(root);
  }
  file.hash = document.hash();
  return file;
}

ModelFile read_model(const std::filesystem::path& path) {
  // A directory of a downloaded model is as good a name as its config.json.
  std::string name = path.stem().string();
  if (name == "config" && path.has_parent_path()) name = path.parent_path().filename().string();
  return read_model(Document::read(path), name.empty() ? "model" : name);
}

ModelFile load_model(std::string_view name_or_path,
                     std::span<const std::filesystem::path> directories) {
  std::filesystem::path path = resolve_file(name_or_path, model_files(directories));
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) path /= "config.json";
  return read_model(path);
}

std::vector<NamedFile> list_models(std::span<const std::filesystem::path> directories) {
  return list_files(model_files(directories));
}

}  // namespace plansearch::io
