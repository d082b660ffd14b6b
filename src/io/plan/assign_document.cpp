// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/ranges.hpp"
#include "io/plan/plan_document.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch::io {
namespace {

constexpr int kMostRank = 1 << 30;
constexpr int kMostChunk = 65535;

/// The number at the front, which is taken off; nothing where there is none.
std::optional<int> take_number(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMostRank) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// A part that follows a letter; `value` where the letter is not there.
bool take_part(std::string_view& text, char letter, int& value) {
  if (text.empty() || text.front() != letter) return true;
  text.remove_prefix(1);
  const auto number = take_number(text);
  if (number) value = *number;
  return number.has_value();
}

/// FIRST[-LAST[:STEP[*WIDTH]]]
DeviceRange read_range(const Node& node) {
  const std::string text = node.text();
  std::string_view rest = text;
  DeviceRange range;
  const auto first = take_number(rest);
  bool read = first.has_value();
  if (read) range.first = range.last = *first;
  read = read && take_part(rest, '-', range.last) && take_part(rest, ':', range.step) &&
         take_part(rest, '*', range.width) && rest.empty();
  read = read && range.first <= range.last && range.step >= 1 && range.width >= 1 &&
         range.width <= range.step;
  if (!read) {
    node.fail(fmt::format("'{}' is not a set of devices", text),
              "ranks as 0-7, 12, 0-28:4 (every fourth) or 0-71:64*8 (eight from every 64th)");
  }
  return range;
}

std::vector<DeviceRange> read_devices(const Node& node) {
  std::vector<DeviceRange> devices;
  if (node.is_scalar()) {
    devices.push_back(read_range(node));
  } else {
    for (const Node& item : node.items()) devices.push_back(read_range(item));
  }
  if (devices.empty()) node.fail("no device", "ranks such as 0-7");
  std::int64_t count = 0;
  for (const DeviceRange& range : devices) count += device_count(range);
  if (count > kMostDevices)
    node.fail(fmt::format("{} devices", count), "more than any machine has");
  return devices;
}

std::string devices_yaml(const std::vector<DeviceRange>& devices) {
  std::vector<std::string> parts;
  for (const DeviceRange& range : devices) parts.push_back(in_quotes(to_text(range)));
  if (parts.size() == 1) return "devices: " + parts.front();
  return fmt::format("devices: [{}]", fmt::join(parts, ", "));
}

/// Among the settings of an answer, but not settings: remarks on the model and on the plan, whose
/// degrees are in its config.
constexpr std::array<std::string_view, 7> kRemarks{
    "part", "passed_over", "trained", "order", "other_operators", "tower", "rollout_memory"};
constexpr std::array<std::string_view, 8> kOrigins{"flag",      "plan",    "model",   "assumed",
                                                   "framework", "profile", "default", "gpus"};

bool is_remark(std::string_view key) {
  const auto& degrees = degree_table();
  return contains(kRemarks, key) || std::ranges::any_of(degrees, [&](const DegreeRow& row) {
           return row.key == key || key == key_of(row.degree, {});
         });
}

bool was_chosen(const Node& setting) {
  const Node origin = setting.at("origin");
  const std::string text = origin.text();
  if (!contains(kOrigins, text)) {
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

bool is_shared(const Node& entry) {
  const auto devices = entry.find("devices");
  return devices && devices->is_scalar() && devices->text() == "all";
}

bool all_shared(const Node& assign) {
  const std::vector<Node> items = assign.items();
  return !items.empty() && std::ranges::all_of(items, is_shared);
}

std::optional<SharedDocument> read_shared(const Node& root) {
  const auto node = root.find("assign");
  if (!node) return std::nullopt;
  SharedDocument document;
  for (const Node& item : node->items()) {
    if (!is_shared(item)) continue;
    for (const std::string_view key : {"layers", "copies", "chunk"}) {
      if (const auto other = item.find(key)) {
        other->fail(fmt::format("{} beside devices: all", key),
                    "whole blocks lie on the devices of all stages: of: BLOCK");
      }
    }
    const Node of = item.at("of");
    const auto selectors = of.is_scalar() ? std::vector{of.text()} : of.texts();
    if (selectors.empty()) of.fail("the entry means no block", "of: BLOCK, or leave it out");
    for (const std::string& selector : selectors) {
      if (selector.find('/') != std::string::npos) {
        of.fail(fmt::format("'{}' names operators", selector),
                "whole blocks lie on the devices of all stages: BLOCK");
      }
      document.blocks.push_back(selector);
      document.places.push_back({of.where()});
    }
  }
  if (document.blocks.empty()) return std::nullopt;
  return document;
}

std::optional<AssignDocument> read_assign(const Node& root) {
  const auto node = root.find("assign");
  if (!node) return std::nullopt;
  const std::vector<Node> items = node->items();
  if (items.empty()) node->fail("nothing is assigned", "leave it out");
  if (all_shared(*node)) return std::nullopt;
  if (const auto degrees = root.find("degrees")) {
    degrees->fail("degrees beside assign", "transform says the degrees of what it selects");
  }
  AssignDocument document;
  for (const Node& item : items) {
    if (is_shared(item)) continue;
    document.places.push_back({item.where()});
    AssignEntry& entry = document.entries.emplace_back();
    entry.what = read_selection(item, Nothing::Selectable);
    entry.devices = read_devices(item.at("devices"));
    if (const auto chunk = item.find("chunk")) entry.chunk = chunk->count(0, kMostChunk);
  }
  document.order.place = {node->where()};
  read_order(root, document.order);
  return document;
}

std::string to_yaml(const AssignDocument& document) {
  std::string text;
  for (const AssignEntry& entry : document.entries) {
    std::vector<std::string> parts = selection_yaml(entry.what);
    parts.push_back(devices_yaml(entry.devices));
    if (entry.chunk) parts.push_back(fmt::format("chunk: {}", *entry.chunk));
    text += fmt::format("  - {{{}}}\n", fmt::join(parts, ", "));
  }
  return text;
}

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
