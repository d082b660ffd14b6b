// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "exporters/export_plan.hpp"

namespace plansearch::exporters {
namespace {

/// Rank orders are compared on the axes that have several ranks.
bool same_order(std::string_view offered, std::string_view wanted) {
  const auto axes = words_of(wanted, "-");
  std::vector<std::string> kept = words_of(offered, "-");
  std::erase_if(kept, [&](const std::string& word) { return !contains(axes, word); });
  return kept == axes;
}

/// Whether what a row offers is the value of the plan.
bool is_value(Setting setting, std::string_view offered, const ExportRequest& request) {
  const std::string value = value_of(setting, request);
  if (setting == Setting::RankOrder) return same_order(offered, value);
  if (offered == kOwnSplit) return request.stages == request.own_stages;
  return offered == value;
}

bool takes(const Accepts& accepts, const ExportRequest& request) {
  if (accepts.values.empty()) return true;
  return std::ranges::any_of(accepts.values, [&](std::string_view offered) {
    return is_value(accepts.setting, offered, request);
  });
}

std::optional<Refusal> refusal_of(Setting setting, const Exporter& exporter,
                                  const ExportRequest& request, const Settings& said) {
  if (!matters(setting, request)) return std::nullopt;
  const std::string value = value_of(setting, request);
  const std::string neutral = neutral_value(setting);
  const std::string what = fmt::format("{} {}", name_of(setting), value);
  const Accepts* accepts = find_accepts(exporter, setting);
  if (accepts == nullptr) {
    if (value == neutral) return std::nullopt;
    return Refusal{what, neutral};
  }
  if (!takes(*accepts, request))
    return Refusal{what, fmt::format("{}", fmt::join(accepts->values, ", "))};
  const std::string_view silent = accepts->silent.empty() ? neutral : accepts->silent;
  if (accepts->by != By::Key || is_value(setting, silent, request)) return std::nullopt;
  if (said.test(static_cast<std::size_t>(setting))) return std::nullopt;
  return Refusal{fmt::format("{} in this plan, which no key of its configuration can say", what),
                 {}};
}

}  // namespace

Settings said_by_keys(const Exporter& exporter, const ExportRequest& request) {
  Settings said;
  for (const Document& document : exporter.documents) {
    for (const Key& key : document.keys) {
      if (key.says.empty() || key.value(request).is_null()) continue;
      for (const Setting setting : key.says) said.set(static_cast<std::size_t>(setting));
    }
  }
  return said;
}

std::vector<Refusal> refusals(const Exporter& exporter, const ExportRequest& request) {
  std::vector<Refusal> result;
  if ((exporter.by_stage | request.differ) != exporter.by_stage) return {{request.difference, {}}};
  const Settings said = said_by_keys(exporter, request);
  for (std::size_t s = 0; s < kSettingCount && !exporter.traces; ++s) {
    if (auto refusal = refusal_of(static_cast<Setting>(s), exporter, request, said))
      result.push_back(std::move(*refusal));
  }
  for (const Trait& trait : exporter.lacks) {
    if (trait.has(request.model()))
      result.push_back({fmt::format("{} has {}", request.model().name, trait.words), {}, true});
  }
  for (const Conflict& conflict : exporter.conflicts) {
    if (conflict.has(request)) result.push_back({std::string(conflict.words), {}});
  }
  return result;
}

std::string capability_text(const Exporter& exporter, Setting setting) {
  const Accepts* accepts = find_accepts(exporter, setting);
  if (exporter.traces) return "any";
  if (accepts == nullptr) return neutral_value(setting);
  const std::string values =
      accepts->values.empty() ? "any" : fmt::format("{}", fmt::join(accepts->values, ", "));
  return accepts->by == By::Script ? fmt::format("{} (script)", values) : values;
}

}  // namespace plansearch::exporters
