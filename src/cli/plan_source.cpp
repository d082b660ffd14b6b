// SPDX-License-Identifier: Apache-2.0
#include "cli/plan_source.hpp"

#include <fmt/format.h>

#include <charconv>

#include "io/document.hpp"
#include "io/plan_document.hpp"
#include "plansearch/error.hpp"

namespace plansearch::cli {
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
  explicit Completion(const Options& options) : asked_{options, {}, {}} {}

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
  [[nodiscard]] Options& options() { return asked_.options; }
  [[nodiscard]] AskedOptions take() { return std::move(asked_); }

 private:
  AskedOptions asked_;
};

/// Settings of the earlier answer that were no defaults.
void fill_settings(Completion& completion, const io::Node& settings) {
  Options& o = completion.options();
  for (const io::Node& setting : settings.items()) {
    const std::string key = setting.at("key").text();
    const std::string origin = setting.at("origin").text();
    if (origin != "flag" && origin != "plan") continue;
    const std::string value = setting.at("value").text();
    if (key == "optimizer") completion.fill("optimizer", o.optimizer, value);
    if (key == "attention") completion.fill("attention", o.attention, value);
    if (key == "rank_order") completion.fill("rank_order", o.rank_order, value);
    if (key == "mem_reserve") completion.fill("mem_reserve", o.mem_reserve, value);
    if (key == "overlap") completion.fill("overlap", o.overlap, value);
  }
}

void fill_question(Completion& completion, const io::Node& question) {
  Options& o = completion.options();
  completion.fill("hardware", o.hardware, question.at("hardware").text());
  completion.fill("model", o.model, question.at("model").text());
  if (o.target.empty()) {
    completion.fill("framework", o.framework, question.at("framework").text());
  }
  completion.fill("precision", o.precision, question.at("precision").text());
  completion.fill("batch", o.batch, question.at("global_batch").integer(io::kPositive));
  completion.fill("seq_len", o.seq_len, question.at("seq_len").integer(io::kPositive));
  if (!o.nodes) completion.fill("gpus", o.gpus, question.at("gpus").count());
  fill_settings(completion, question.at("settings"));
}

void fill_degrees(Completion& completion, const io::Node& config) {
  DegreeOptions& d = completion.options().degrees;
  completion.fill("dp", d.dp, config.at("dp").count());
  completion.fill("pp", d.pp, config.at("pp").count());
  completion.fill("vpp", d.vpp, config.at("vpp").count());
  const int in = config.at("tp_x").count();
  const int depth = config.at("tp_z").count();
  const bool grid = d.tp_x || d.tp_y || d.tp_z || (!d.tp && (in > 1 || depth > 1));
  if (grid) {
    completion.fill("tp_x", d.tp_x, in);
    completion.fill("tp_y", d.tp_y, config.at("tp_y").count());
    completion.fill("tp_z", d.tp_z, depth);
  } else {
    completion.fill("tp", d.tp, config.at("tp").count());
  }
  completion.fill("cp", d.cp, config.at("cp").count());
  completion.fill("cp_kind", d.cp_kind, config.at("cp_kind").text());
  completion.fill("ep", d.ep, config.at("ep").count());
  completion.fill("etp", d.etp, config.at("etp").count());
  completion.fill("zero", d.zero, config.at("zero").count(0, 3));
  const int group = config.at("shard_group").count(0);
  if (group > 0) completion.fill("shard_group", d.shard_group, group);
  completion.fill("sp", d.sp, config.at("sp").boolean() ? 1 : 0);
  completion.fill("micro_batch", d.micro_batch, config.at("micro_batch").count());
  completion.fill("recompute", d.recompute, config.at("recompute").text());
  completion.fill("schedule", d.schedule, config.at("schedule").text());
}

AskedOptions from_result(const Options& options, const io::Node& root, std::size_t rank) {
  const std::vector<io::Node> plans = root.at("plans").items();
  if (rank > plans.size()) {
    root.at("plans").fail(fmt::format("no plan of rank {}", rank),
                          fmt::format("the file has {}", plans.size()));
  }
  Completion completion(options);
  fill_question(completion, root.at("question"));
  fill_degrees(completion, plans[rank - 1].at("config"));
  return completion.take();
}

template <typename E>
std::optional<std::string> words(const std::optional<E>& value) {
  if (!value) return std::nullopt;
  return std::string(to_text(*value));
}

void fill_degrees(Completion& completion, const io::PlanDocument& plan) {
  DegreeOptions& d = completion.options().degrees;
  completion.fill("dp", d.dp, plan.dp);
  completion.fill("pp", d.pp, plan.pp);
  completion.fill("vpp", d.vpp, plan.vpp);
  // A flag replaces the file's tensor degrees as a whole: the two spellings do not mix.
  if (!d.tp && !d.tp_x && !d.tp_y && !d.tp_z) {
    completion.fill("tp", d.tp, plan.tp);
    completion.fill("tp_x", d.tp_x, plan.tp_x);
    completion.fill("tp_y", d.tp_y, plan.tp_y);
    completion.fill("tp_z", d.tp_z, plan.tp_z);
  }
  completion.fill("cp", d.cp, plan.cp);
  completion.fill("cp_kind", d.cp_kind, words(plan.cp_kind));
  completion.fill("ep", d.ep, plan.ep);
  completion.fill("etp", d.etp, plan.etp);
  completion.fill("shard_group", d.shard_group, plan.shard_group);
  completion.fill("micro_batch", d.micro_batch, plan.micro_batch);
  completion.fill("recompute", d.recompute, words(plan.recompute));
  completion.fill("schedule", d.schedule, words(plan.schedule));
  if (plan.zero) completion.fill("zero", d.zero, static_cast<int>(*plan.zero));
  if (plan.sp) completion.fill("sp", d.sp, *plan.sp == SequenceParallel::On ? 1 : 0);
}

AskedOptions from_document(const Options& options, const io::PlanDocument& plan) {
  Completion completion(options);
  Options& o = completion.options();
  completion.fill("hardware", o.hardware, plan.hardware);
  completion.fill("model", o.model, plan.model);
  if (o.target.empty()) completion.fill("framework", o.framework, plan.framework);
  if (!o.nodes) completion.fill("gpus", o.gpus, plan.gpus);
  completion.fill("batch", o.batch, plan.global_batch);
  completion.fill("seq_len", o.seq_len, plan.seq_len);
  completion.fill("precision", o.precision, words(plan.precision));
  completion.fill("optimizer", o.optimizer, plan.optimizer);
  completion.fill("attention", o.attention, plan.attention);
  completion.fill("rank_order", o.rank_order, plan.rank_order);
  fill_degrees(completion, plan);
  return completion.take();
}

}  // namespace

AskedOptions complete_from_plan(const Options& options) {
  if (options.plan.empty()) return {options, {}, {}};
  const PlanName name = split_rank(options.plan);
  io::ParseLimits limits;
  limits.size = std::size_t{64} << 20U;
  limits.values = 4'000'000;
  const io::Document document = io::Document::read(name.file, limits);
  const io::Node root = document.root();
  const std::string schema = root.at("schema").text();
  if (schema == kResultSchema) return from_result(options, root, name.rank);
  if (schema == kPlanSchema) return from_document(options, io::read_plan_document(name.file));
  root.at("schema").fail(
      fmt::format("'{}' is no plan", schema),
      fmt::format("plans come from {} and {} files", kPlanSchema, kResultSchema));
}

}  // namespace plansearch::cli
