// SPDX-License-Identifier: Apache-2.0
#include "io/plan_document.hpp"

#include <fmt/format.h>

#include "io/plan_text.hpp"
#include "io/profile_parts.hpp"
#include "io/schedule_csv.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {
namespace {

constexpr std::string_view kSchema = "plansearch/plan/v1";

NamedContent read_named(const Node& node) {
  if (node.is_scalar()) return {node.text(), std::nullopt};
  NamedContent content{node.at("name").text(), std::nullopt};
  if (const auto hash = node.find("hash")) content.hash = hash->text();
  return content;
}

void read_text(const Node& root, std::string_view key, std::optional<std::string>& field) {
  if (const auto node = root.find(key)) field = node->text();
}

void read_question(const Node& root, PlanDocument& document) {
  if (const auto node = root.find("hardware")) document.hardware = read_named(*node);
  if (const auto node = root.find("model")) document.model = read_named(*node);
  if (const auto node = root.find("framework")) document.framework = read_named(*node);
  if (const auto node = root.find("gpus")) document.gpus = node->count();
  if (const auto node = root.find("batch")) document.global_batch = node->integer(kPositive);
  if (const auto node = root.find("seq_len")) document.seq_len = node->integer(kPositive);
  if (const auto node = root.find("precision")) {
    document.precision = parse_data_type(node->text());
    if (!document.precision) {
      node->fail(fmt::format("unknown number format '{}'", node->text()),
                 "one of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
    }
  }
  read_text(root, "optimizer", document.optimizer);
  read_text(root, "attention", document.attention);
  read_text(root, "rank_order", document.rank_order);
  if (const auto node = root.find("lora_rank")) document.lora_rank = node->integer(kPositive);
  read_text(root, "lora_targets", document.lora_targets);
}

class Writer {
 public:
  explicit Writer(std::string_view indent) : indent_(indent) {}

  void line(std::string_view key, const std::string& value) {
    text_ += fmt::format("{}{}: {}\n", indent_, key, value);
  }
  void named(std::string_view key, const std::optional<NamedContent>& content) {
    if (!content) return;
    line(key, content->hash ? fmt::format("{{name: {}, hash: {}}}", in_quotes(content->name),
                                          in_quotes(*content->hash))
                            : in_quotes(content->name));
  }
  template <typename T>
  void number(std::string_view key, const std::optional<T>& value) {
    if (value) line(key, fmt::format("{}", *value));
  }
  void words(std::string_view key, const std::optional<std::string>& value) {
    if (value) line(key, in_quotes(*value));
  }
  template <typename E>
  void choice(std::string_view key, const std::optional<E>& value) {
    if (value) line(key, std::string(to_text(*value)));
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string indent_;
  std::string text_;
};

}  // namespace

int read_degree(const Node& node, Degree degree) {
  const DegreeRow& row = row_of(degree);
  switch (row.kind) {
    case DegreeKind::Number:
      return node.count(row.low, row.high);
    case DegreeKind::Switch:
      return node.boolean() ? 1 : 0;
    case DegreeKind::Word:
      break;
  }
  const std::string word = node.text();
  if (degree == Degree::Schedule) take_schedule_files(word);
  if (const auto value = row.find(word)) return *value;
  node.fail(fmt::format("'{}' is no {}", word, row.key), legal_text(degree));
}

PinnedDegrees read_degrees(const Node& map, DegreeSet without) {
  PinnedDegrees degrees;
  for (const DegreeRow& row : degree_table()) {
    if (without.contains(row.degree)) continue;
    if (const auto node = map.find(row.key))
      degrees.pin(row.degree, read_degree(*node, row.degree));
  }
  const auto tensor = map.find(kTensorAlias.key);
  if (!tensor) return degrees;
  if (degrees.has(Degree::TensorIn) || degrees.has(Degree::TensorOut) ||
      degrees.has(Degree::TensorDepth)) {
    tensor->fail("tp and tp_x, tp_y, tp_z are two ways to say the same",
                 "keep tp (Megatron: tp_y) or the three axes");
  }
  degrees.pin(kTensorAlias.degree, read_degree(*tensor, kTensorAlias.degree));
  return degrees;
}

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string yaml_value(Degree degree, int value) {
  if (row_of(degree).kind == DegreeKind::Switch) return value == 0 ? "false" : "true";
  return value_text(degree, value);
}

PlanDocument read_plan_document(const std::filesystem::path& path) {
  return read_plan_document(Document::read(path).root());
}

PlanDocument read_plan_document(const Node& root) {
  require_schema(root, kSchema);
  PlanDocument document;
  if (const auto description = root.find("description")) description->ignore();
  read_question(root, document);
  document.stages = read_stages(root);
  document.placements = read_placements(root);
  if (const auto degrees = root.find("degrees")) document.degrees = read_degrees(*degrees, {});
  root.finish();
  return document;
}

PinnedDegrees read_config(const Node& config) {
  PinnedDegrees degrees;
  for (const DegreeRow& row : degree_table()) {
    const Node value = config.at(row.key);
    degrees.pin(row.degree, read_degree(value, row.degree));
  }
  return degrees;
}

PlanDocument to_document(const PlanDegrees& plan) {
  PlanDocument document;
  document.degrees = to_pinned(plan);
  document.gpus = plan.devices();
  document.global_batch = plan.global_batch();
  return document;
}

std::string to_yaml(const PlanDocument& document) {
  Writer top("");
  top.line("schema", std::string(kSchema));
  top.named("hardware", document.hardware);
  top.named("model", document.model);
  top.named("framework", document.framework);
  top.number("gpus", document.gpus);
  top.number("batch", document.global_batch);
  top.number("seq_len", document.seq_len);
  top.choice("precision", document.precision);
  top.words("optimizer", document.optimizer);
  top.words("attention", document.attention);
  top.words("rank_order", document.rank_order);
  top.number("lora_rank", document.lora_rank);
  top.words("lora_targets", document.lora_targets);
  Writer degrees("  ");
  for (const DegreeRow& row : degree_table()) {
    const auto value = document.degrees.get(row.degree);
    if (value) degrees.line(key_of(row.degree, document.degrees), yaml_value(row.degree, *value));
  }
  const std::string body = degrees.take();
  const std::string stages = document.stages ? to_yaml(*document.stages) : std::string();
  const std::string placements =
      document.placements ? to_yaml(document.placements->names) : std::string();
  return top.take() + (body.empty() ? "" : "degrees:\n" + body) + stages + placements;
}

}  // namespace plansearch::io
