// SPDX-License-Identifier: Apache-2.0
#include "problem/plan_source.hpp"

#include <fmt/format.h>

#include <charconv>

#include "io/document.hpp"
#include "io/plan_document.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kResultSchema = "plansearch/result/v1";
constexpr std::string_view kPlanSchema = "plansearch/plan/v1";

struct PlanName {
  std::string file;
  std::size_t rank = 1;
};

PlanName split_rank(const std::string& text) {
  const std::size_t at = text.rfind('#');
  if (at == std::string::npos) return {text, 1};
  const std::string digits = text.substr(at + 1);
  PlanName name{text.substr(0, at), 0};
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), name.rank);
  if (error != std::errc() || end != digits.data() + digits.size() || name.rank == 0) {
    throw InputError({}, fmt::format("'{}': the part after # is no rank", text),
                     "ranks count from 1, as in result.json#2");
  }
  return name;
}

/// Fills what is open and remembers that the plan did it.
class Completion {
 public:
  explicit Completion(const ProblemRequest& request) : asked_(request) {}

  void fill(const char* key, std::string& field, std::string value) {
    if (!field.empty()) return;
    field = std::move(value);
    asked_.from_plan.insert(key);
  }
  template <typename T>
  void fill(const char* key, std::optional<T>& field, T value) {
    if (field) return;
    field = std::move(value);
    asked_.from_plan.insert(key);
  }
  /// A value the plan may leave open too.
  template <typename T>
  void fill(const char* key, std::optional<T>& field, const std::optional<T>& value) {
    if (value) fill(key, field, *value);
  }
  /// A file by name, with the hash it had when the plan was written.
  void fill(const char* key, std::string& field, const std::optional<io::NamedContent>& value) {
    if (!value || !field.empty()) return;
    fill(key, field, value->name);
    if (value->hash) asked_.content_hashes[key] = *value->hash;
  }
  [[nodiscard]] ProblemRequest& request() { return asked_; }
  [[nodiscard]] ProblemRequest take() { return std::move(asked_); }

 private:
  ProblemRequest asked_;
};

/// Settings are texts.
std::int64_t whole_number(const io::Node& setting) {
  const io::Node value = setting.at("value");
  const std::string text = value.text();
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) value.fail("no whole number");
  return number;
}

/// Settings of the earlier answer that were no defaults.
void fill_settings(Completion& completion, const io::Node& settings) {
  ProblemRequest& o = completion.request();
  for (const io::Node& setting : settings.items()) {
    const std::string key = setting.at("key").text();
    const std::string origin = setting.at("origin").text();
    if (origin != "flag" && origin != "plan") continue;
    const std::string value = setting.at("value").text();
    if (key == "hardware") completion.fill("hardware", o.hardware, value);
    if (key == "model") completion.fill("model", o.model, value);
    if (key == "framework" && o.target.empty()) completion.fill("framework", o.framework, value);
    if (key == "optimizer") completion.fill("optimizer", o.optimizer, value);
    if (key == "attention") completion.fill("attention", o.attention, value);
    if (key == "rank_order") completion.fill("rank_order", o.rank_order, value);
    if (key == "lora_targets") completion.fill("lora_targets", o.lora_targets, value);
    if (key == "lora_rank") completion.fill("lora_rank", o.lora_rank, whole_number(setting));
    if (key == "mem_reserve") completion.fill("mem_reserve", o.mem_reserve, value);
    if (key == "mem_risk") completion.fill("mem_risk", o.mem_risk, parse_number(value));
    if (key == "tokens") completion.fill("tokens", o.tokens, value);
    if (key == "memory_cap") {
      completion.fill("memory_cap", o.memory_cap, static_cast<int>(whole_number(setting)));
    }
    if (key == "overlap") completion.fill("overlap", o.overlap, value);
    if (key == "implementation") completion.fill("implementation", o.implementation, value);
    if (key == "kernels") completion.fill("kernels", o.kernels, value);
    if (key == "main_grads") completion.fill("main_grads", o.main_grads, value);
    if (key == "fp8_recipe") completion.fill("fp8_recipe", o.fp8_recipe, value);
    if (key == "cuda_graphs") completion.fill("cuda_graphs", o.cuda_graphs, value);
    if (key == "offload") completion.fill("offload", o.offload, value);
  }
}

void fill_question(Completion& completion, const io::Node& question) {
  ProblemRequest& o = completion.request();
  fill_settings(completion, question.at("settings"));
  completion.fill("hardware", o.hardware, question.at("hardware").text());
  completion.fill("model", o.model, question.at("model").text());
  if (o.target.empty()) {
    completion.fill("framework", o.framework, question.at("framework").text());
  }
  completion.fill("precision", o.precision, question.at("precision").text());
  completion.fill("batch", o.batch, question.at("global_batch").integer(io::kPositive));
  completion.fill("seq_len", o.seq_len, question.at("seq_len").integer(io::kPositive));
  if (!o.nodes) completion.fill("gpus", o.gpus, question.at("gpus").count());
}

/// A flag replaces the tensor degrees as a whole: the two spellings do not mix.
void fill_degrees(Completion& completion, const PinnedDegrees& degrees) {
  PinnedDegrees& asked = completion.request().degrees;
  constexpr DegreeSet kTensor{Degree::TensorIn, Degree::TensorOut, Degree::TensorDepth};
  const bool tensor =
      asked.has(Degree::TensorIn) || asked.has(Degree::TensorOut) || asked.has(Degree::TensorDepth);
  for (const DegreeRow& row : degree_table()) {
    const auto value = degrees.get(row.degree);
    if (!value || asked.has(row.degree) || (tensor && kTensor.contains(row.degree))) continue;
    asked.pin(row.degree, *value);
  }
}

/// Stages that are spelled out have degrees of their own.
void refuse_degrees(const ProblemRequest& request, const SourceLocation& where) {
  if (request.degrees.empty()) return;
  throw InputError(
      where,
      fmt::format("the stages are spelled out here, and {} is asked for", to_text(request.degrees)),
      "change the stages, or leave the degrees out");
}

AskedPlan from_result(const ProblemRequest& request, const io::Node& root, std::size_t rank) {
  const std::vector<io::Node> plans = root.at("plans").items();
  if (rank > plans.size()) {
    root.at("plans").fail(fmt::format("no plan of rank {}", rank),
                          fmt::format("the file has {}", plans.size()));
  }
  const io::Node config = plans[rank - 1].at("config");
  Completion completion(request);
  fill_question(completion, root.at("question"));
  if (auto stages = io::read_stages(config)) {
    refuse_degrees(request, stages->place.where);
    return {completion.take(), std::move(stages), io::read_placements(config)};
  }
  fill_degrees(completion, io::read_config(config));
  return {completion.take(), std::nullopt, io::read_placements(config)};
}

AskedPlan from_document(const ProblemRequest& request, const io::PlanDocument& plan) {
  Completion completion(request);
  ProblemRequest& o = completion.request();
  completion.fill("hardware", o.hardware, plan.hardware);
  completion.fill("model", o.model, plan.model);
  if (o.target.empty()) completion.fill("framework", o.framework, plan.framework);
  if (!o.nodes) completion.fill("gpus", o.gpus, plan.gpus);
  completion.fill("batch", o.batch, plan.global_batch);
  completion.fill("seq_len", o.seq_len, plan.seq_len);
  if (plan.precision) {
    completion.fill("precision", o.precision, std::string(to_text(*plan.precision)));
  }
  completion.fill("optimizer", o.optimizer, plan.optimizer);
  completion.fill("attention", o.attention, plan.attention);
  completion.fill("rank_order", o.rank_order, plan.rank_order);
  completion.fill("lora_rank", o.lora_rank, plan.lora_rank);
  completion.fill("lora_targets", o.lora_targets, plan.lora_targets);
  if (plan.stages) refuse_degrees(request, plan.stages->place.where);
  fill_degrees(completion, plan.degrees);
  return {completion.take(), plan.stages, plan.placements};
}

}  // namespace

AskedPlan complete_from_plan(const ProblemRequest& request, const std::string& plan) {
  if (plan.empty()) return {request, std::nullopt, std::nullopt};
  const PlanName name = split_rank(plan);
  io::ParseLimits limits;
  limits.size = std::size_t{64} << 20U;
  limits.values = 4'000'000;
  const io::Document document = io::Document::read(name.file, limits);
  const io::Node root = document.root();
  const std::string schema = root.at("schema").text();
  if (schema == kResultSchema) return from_result(request, root, name.rank);
  if (schema == kPlanSchema) return from_document(request, io::read_plan_document(root));
  root.at("schema").fail(
      fmt::format("'{}' is no plan", schema),
      fmt::format("plans come from {} and {} files", kPlanSchema, kResultSchema));
}

}  // namespace plansearch
