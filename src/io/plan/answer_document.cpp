// SPDX-License-Identifier: Apache-2.0
#include "io/plan/plan_document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/checked.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch::io {
namespace {

/// Among the settings of an answer, but not settings: remarks on the model and on the plan, whose
/// degrees are in its config.
constexpr std::array<std::string_view, 5> kRemarks{"part", "passed_over", "trained", "order",
                                                   "other_operators"};
constexpr std::array<std::string_view, 8> kOrigins{"flag",      "plan",    "model",   "assumed",
                                                   "framework", "profile", "default", "gpus"};

bool is_remark(std::string_view key) {
  const auto& degrees = degree_table();
  return std::find(kRemarks.begin(), kRemarks.end(), key) != kRemarks.end() ||
         std::any_of(degrees.begin(), degrees.end(), [&](const DegreeRow& row) {
           return row.key == key || key == key_of(row.degree, {});
         });
}

bool was_chosen(const Node& setting) {
  const Node origin = setting.at("origin");
  const std::string text = origin.text();
  if (std::find(kOrigins.begin(), kOrigins.end(), text) == kOrigins.end()) {
    origin.fail(fmt::format("unknown origin '{}'", text),
                fmt::format("one of {}", fmt::join(kOrigins, ", ")));
  }
  return text == "flag" || text == "plan";
}

std::string checked_text(const Node& value, const SettingRow& row) {
  const std::string text = value.text();
  const std::string problem = setting_problem(row, text);
  if (!problem.empty()) value.fail(fmt::format("{}: {}", row.key, problem), std::string(row.help));
  return text;
}

/// Takes the settings that a user chose; the others follow from the same files again.
void take_settings(const Node& settings, ProblemRequest& question) {
  for (const Node& setting : settings.items()) {
    const std::string key = setting.at("key").text();
    if (is_remark(key)) continue;
    const SettingRow* row = find_setting(key);
    if (row == nullptr) {
      setting.at("key").fail(fmt::format("unknown setting '{}'", key),
                             "docs/settings.md lists the settings");
    }
    const std::string text = checked_text(setting.at("value"), *row);
    if (was_chosen(setting)) row->set(question, text);
  }
}

/// Takes the settled question of the answer. A value that names a file has its path among the
/// settings.
void take_question(const Node& node, ProblemRequest& question) {
  for (const SettingRow& row : setting_table()) {
    if (!row.always_written) continue;
    const auto named = node.find(row.key);
    const Node value = named ? *named : node.at(row.column);
    const std::string text = checked_text(value, row);
    const auto chosen = row.get(question);
    if (chosen && row.kind != SettingKind::Name && *chosen != text) {
      value.fail(fmt::format("{} is {} here, {} among the settings", row.key, text, *chosen),
                 "change both, or neither");
    }
    if (!chosen) row.set(question, text);
  }
}

/// Numbers that follow from the degrees are in an answer to be read, not to be changed.
void check_derived(const Node& config, std::string_view key, std::int64_t derived) {
  const Node node = config.at(key);
  const std::int64_t written = node.integer({0, std::numeric_limits<std::int64_t>::max()});
  if (written == derived) return;
  node.fail(
      fmt::format("{} is {} here, but the degrees of the plan give {}", key, written, derived),
      "change the degrees");
}

PinnedDegrees read_config(const Node& config, const Node& question, std::int64_t batch) {
  PinnedDegrees degrees;
  for (const DegreeRow& row : degree_table()) {
    degrees.pin(row.degree, read_degree(config.at(row.key), row.degree));
  }
  const PlanDegrees plan = with_pinned({}, degrees);
  check_derived(config, "tp", plan.tensor());
  check_derived(config, "gpus", plan.devices());
  check_derived(question, "gpus", plan.devices());
  check_derived(config, "global_batch", batch);
  const std::int64_t per_round = std::int64_t{1} * plan.data * plan.tensor_depth * plan.micro_batch;
  check_derived(config, "micro_batches", batch / per_round);
  return degrees;
}

}  // namespace

PlanDocument read_ranked_plan(const Node& answer, std::size_t rank) {
  const std::vector<Node> plans = answer.at("plans").items();
  if (rank == 0 || rank > plans.size()) {
    answer.at("plans").fail(fmt::format("the answer has no plan of rank {}", rank),
                            fmt::format("it has {}", plans.size()));
  }
  PlanDocument document;
  const Node question = answer.at("question");
  take_settings(question.at("settings"), document.question);
  take_question(question, document.question);
  const Node config = plans[rank - 1].at("config");
  document.stages = read_stages(config);
  document.placements = read_placements(config);
  document.shared = read_shared(config);
  document.window = read_window(config);
  if (document.stages) return document;
  document.question.degrees = read_config(config, question, *document.question.batch);
  config.finish();
  return document;
}

}  // namespace plansearch::io
