// SPDX-License-Identifier: Apache-2.0
#include "io/plan_document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "io/document.hpp"
#include "io/profile_parts.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {
namespace {

constexpr std::string_view kSchema = "plansearch/plan/v1";

constexpr std::array<Choice<ContextKind>, 2> kContextKinds{
    {{"ring", ContextKind::Ring}, {"ulysses", ContextKind::Ulysses}}};
constexpr std::array<Choice<Recompute>, 3> kRecompute{
    {{"none", Recompute::None}, {"selective", Recompute::Selective}, {"full", Recompute::Full}}};

/// The whole-number degrees: their keys in the file and their fields, in the order of the file.
struct Degree {
  std::string_view key;
  std::optional<int> PlanDocument::*field;
};
constexpr std::array<Degree, 12> kDegrees{{{"dp", &PlanDocument::dp},
                                           {"pp", &PlanDocument::pp},
                                           {"vpp", &PlanDocument::vpp},
                                           {"tp", &PlanDocument::tp},
                                           {"tp_x", &PlanDocument::tp_x},
                                           {"tp_y", &PlanDocument::tp_y},
                                           {"tp_z", &PlanDocument::tp_z},
                                           {"cp", &PlanDocument::cp},
                                           {"ep", &PlanDocument::ep},
                                           {"etp", &PlanDocument::etp},
                                           {"shard_group", &PlanDocument::shard_group},
                                           {"micro_batch", &PlanDocument::micro_batch}}};

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
}

ScheduleId read_schedule(const Node& node) {
  const std::string text = node.text();
  const auto schedule = find_schedule(text);
  if (!schedule) {
    node.fail(fmt::format("unknown schedule '{}'", text),
              fmt::format("one of {}", fmt::join(schedule_names(), ", ")));
  }
  return *schedule;
}

void read_degrees(const Node& map, PlanDocument& document) {
  for (const Degree& degree : kDegrees) {
    if (const auto node = map.find(degree.key)) document.*degree.field = node->count();
  }
  if (document.tp && (document.tp_x || document.tp_y || document.tp_z)) {
    map.at("tp").fail("tp and tp_x, tp_y, tp_z are two ways to say the same",
                      "keep tp (Megatron: tp_y) or the three axes");
  }
  if (const auto node = map.find("cp_kind")) {
    document.cp_kind = node->choice<ContextKind>(kContextKinds);
  }
  if (const auto node = map.find("sp")) {
    document.sp = node->boolean() ? SequenceParallel::On : SequenceParallel::Off;
  }
  if (const auto node = map.find("zero")) {
    document.zero = static_cast<ZeroStage>(node->count(0, 3));
  }
  if (const auto node = map.find("recompute")) {
    document.recompute = node->choice<Recompute>(kRecompute);
  }
  if (const auto node = map.find("schedule")) {
    document.schedule = read_schedule(*node);
  }
}

/// A double-quoted YAML scalar.
std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
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

PlanDocument read_plan_document(const std::filesystem::path& path) {
  const Document file = Document::read(path);
  const Node root = file.root();
  require_schema(root, kSchema);
  PlanDocument document;
  if (const auto description = root.find("description")) description->ignore();
  read_question(root, document);
  if (const auto degrees = root.find("degrees")) read_degrees(*degrees, document);
  root.finish();
  return document;
}

PlanDocument to_document(const PlanDegrees& plan) {
  PlanDocument document;
  document.dp = plan.data;
  document.pp = plan.pipeline;
  document.vpp = plan.chunks;
  if (plan.tensor_in == 1 && plan.tensor_depth == 1) {
    document.tp = plan.tensor_out;
  } else {
    document.tp_x = plan.tensor_in;
    document.tp_y = plan.tensor_out;
    document.tp_z = plan.tensor_depth;
  }
  document.cp = plan.context;
  document.cp_kind = plan.context_kind;
  document.ep = plan.expert;
  document.etp = plan.expert_tensor;
  if (plan.shard_group > 0) document.shard_group = plan.shard_group;
  document.micro_batch = plan.micro_batch;
  document.sp = plan.sequence_parallel;
  document.zero = plan.zero;
  document.recompute = plan.recompute;
  document.schedule = plan.schedule;
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
  Writer degrees("  ");
  for (const Degree& degree : kDegrees) degrees.number(degree.key, document.*degree.field);
  degrees.choice("cp_kind", document.cp_kind);
  if (document.sp) {
    degrees.line("sp", *document.sp == SequenceParallel::On ? "true" : "false");
  }
  if (document.zero) degrees.line("zero", fmt::format("{}", static_cast<int>(*document.zero)));
  degrees.choice("recompute", document.recompute);
  degrees.choice("schedule", document.schedule);
  const std::string body = degrees.take();
  return top.take() + (body.empty() ? "" : "degrees:\n" + body);
}

}  // namespace plansearch::io
