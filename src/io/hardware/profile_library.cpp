// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/hash.hpp"
#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/document.hpp"
#include "io/hardware/profile_parts.hpp"

namespace plansearch::io {
namespace {

namespace fs = std::filesystem;

constexpr std::array<Choice<Evidence>, 4> kEvidence = {{{"measured", Evidence::Measured},
                                                        {"published", Evidence::Published},
                                                        {"datasheet", Evidence::Datasheet},
                                                        {"assumed", Evidence::Assumed}}};

bool covers(std::string_view wider, std::string_view field) {
  return field.starts_with(wider) && (field.size() == wider.size() || field[wider.size()] == '.');
}

/// Entries of a `provenance:` list, the longest matching field wins.
struct Statement {
  std::string field;
  Provenance from;
  std::string file;
};

std::vector<Statement> read_statements(const Node& list, const std::set<std::string>& given) {
  const std::vector<std::string> known(given.begin(), given.end());
  std::vector<Statement> statements;
  for (const Node& item : list.items()) {
    const Provenance from{item.at("evidence").choice<Evidence>(kEvidence),
                          item.at("source").text()};
    if (from.source.empty()) item.at("source").fail("name the source");
    for (const Node& field : item.at("fields").items()) {
      const std::string name = field.text();
      const auto matches = [&](const std::string& g) { return covers(name, g); };
      if (std::ranges::none_of(known, matches)) {
        std::string hint = did_you_mean(name, known);
        if (hint.empty()) hint = fmt::format("given here: {}", fmt::join(known, ", "));
        field.fail(fmt::format("'{}' is not a field given here", name), hint);
      }
      statements.push_back({name, from, field.where().file});
    }
  }
  return statements;
}

/// The place of the value of "peak.bf16", if it stands in this scope.
std::optional<SourceLocation> place_of(const Node& scope, std::string_view field) {
  Node node = scope;
  for (const std::string& key : split(field, ".")) {
    const auto next = node.is_map() ? node.find(key) : std::nullopt;
    if (!next) return std::nullopt;
    node = *next;
  }
  return node.where();
}

constexpr std::string_view kProvenance = "provenance";
/// Keys of one file alone: they are not inherited and have no source of their own.
constexpr std::array<std::string_view, 5> kOwn{"schema", "name", "aliases", "description", "like"};

bool is_own(std::string_view key) {
  return contains(kOwn, key);
}

/// Provenance of both files; the first statement about a field holds.
RawValue merged_provenance(const RawValue& base, const RawValue& own) {
  RawValue list = value_at(own, RawKind::List);
  const auto append = [&](const RawValue& map) {
    const RawValue* own_list = value_under(map, kProvenance);
    if (own_list == nullptr) return;
    list.items.insert(list.items.end(), own_list->items.begin(), own_list->items.end());
  };
  append(own);
  append(base);
  return list;
}

RawValue merged(const RawValue& base, RawValue own) {
  RawValue provenance = merged_provenance(base, own);
  for (const RawEntry& entry : base.entries) {
    if (!is_own(entry.key) && value_under(own, entry.key) == nullptr) own.entries.push_back(entry);
  }
  if (RawValue* list = value_under(own, kProvenance)) {
    *list = std::move(provenance);
  } else if (!provenance.items.empty()) {
    own.entries.push_back(
        {std::string(kProvenance), provenance.line, provenance.column, provenance});
  }
  return own;
}

RawValue merged_tiers(const RawValue& base, const RawValue& own) {
  const auto name_of = [](const RawValue& tier) {
    const RawValue* name = value_under(tier, "name");
    return name == nullptr ? std::string() : name->text;
  };
  RawValue tiers = value_at(own, RawKind::List);
  tiers.items = base.items;
  for (const RawValue& tier : own.items) {
    const auto same = std::ranges::find_if(
        tiers.items, [&](const RawValue& known) { return name_of(known) == name_of(tier); });
    if (same == tiers.items.end()) {
      tiers.items.push_back(tier);
    } else {
      *same = merged(*same, tier);
    }
  }
  return tiers;
}

/// Maps inside maps, `own` first.
RawValue merged_deep(const RawValue& base, RawValue own) {
  if (base.kind != RawKind::Map || own.kind != RawKind::Map) return own;
  for (RawEntry& entry : own.entries) {
    const RawValue* below = value_under(base, entry.key);
    if (below == nullptr || entry.key == kProvenance) continue;
    entry.value = merged_deep(*below, std::move(entry.value));
  }
  RawValue provenance = merged_provenance(base, own);
  for (const RawEntry& entry : base.entries) {
    if (value_under(own, entry.key) == nullptr) own.entries.push_back(entry);
  }
  if (RawValue* list = value_under(own, kProvenance)) *list = std::move(provenance);
  return own;
}

/// An accelerator that is like none is a change of the base's.
RawValue merged_accelerator(const RawValue& base, RawValue own) {
  if (own.kind != RawKind::Map || value_under(own, "like") != nullptr) return own;
  if (value_under(own, "memory") != nullptr && value_under(own, "multiprocessors") != nullptr)
    return own;
  if (base.kind == RawKind::Map) return merged_deep(base, std::move(own));
  own.entries.push_back({"like", base.line, base.column, base});
  return own;
}

}  // namespace

ProvenanceMap FieldLog::provenance(const Node& scope, const ProvenanceMap& inherited) const {
  std::vector<Statement> statements;
  if (const auto list = scope.find("provenance")) statements = read_statements(*list, given_);
  ProvenanceMap result = inherited;
  for (const std::string& field : given_) {
    const Statement* best = nullptr;
    const auto place = place_of(scope, field);  // in another file where a profile is `like` it
    if (place && is_set_place(*place)) {
      result[field] = {Evidence::Assumed, "set for this question"};
      continue;
    }
    for (const Statement& s : statements) {
      if (place && place->file != s.file) continue;
      const bool longer = best == nullptr || s.field.size() > best->field.size();
      if (covers(s.field, field) && longer) best = &s;
    }
    result[field] = best != nullptr ? best->from : Provenance{Evidence::Assumed, "not stated"};
  }
  return result;
}

ProfileLibrary::ProfileLibrary(std::vector<fs::path> directories)
    : directories_(std::move(directories)) {}

Document ProfileLibrary::open(const fs::path& path) {
  Document document = Document::read(path);
  hash_ = combine_hashes(hash_, document.hash());
  return document;
}

NamedFiles ProfileLibrary::files(const std::string& what, const std::string& folder,
                                 const fs::path& beside) const {
  NamedFiles kind{what, {}, {".yaml"}, beside};
  if (!beside.empty()) kind.beside = {beside / folder, beside};
  kind.schema = fmt::format("plansearch/{}/v1", folder.substr(0, folder.size() - 1));
  for (const fs::path& directory : directories_) kind.directories.push_back(directory / folder);
  return kind;
}

const Defaults& ProfileLibrary::defaults() {
  if (defaults_) return *defaults_;
  for (const fs::path& directory : directories_) {
    std::error_code error;
    const fs::path path = directory / "defaults.yaml";
    if (!fs::is_regular_file(path, error)) continue;
    defaults_ = read_defaults(open(path).root());
    return *defaults_;
  }
  throw InputError({}, "defaults.yaml of the hardware profiles is not in any search directory",
                   "point to the hardware_profiles folder that ships with plansearch");
}

Seconds time_or(const Node& node, std::string_view key, const Seconds* base) {
  if (const auto found = node.find(key)) return found->non_negative<Seconds>();
  return base != nullptr ? *base : node.at(key).non_negative<Seconds>();
}

Bandwidth bandwidth_or(const Node& node, std::string_view key, const Bandwidth* base) {
  if (const auto found = node.find(key)) return found->positive<Bandwidth>();
  return base != nullptr ? *base : node.at(key).positive<Bandwidth>();
}

double number_or(const Node& node, std::string_view key, const double* base, double low,
                 double high) {
  const auto found = node.find(key);
  if (!found && base != nullptr) return *base;
  const Node value = found ? *found : node.at(key);
  const double number = value.number();
  if (number < low || number > high) {
    value.fail(fmt::format("{} is outside {} .. {}", number, low, high));
  }
  return number;
}

std::optional<Residual> read_residual(const Node& node, std::optional<Residual> base) {
  const auto found = node.find("residual");
  if (!found) return base;
  const Residual r{number_or(*found, "p10", nullptr, -5, 5),
                   number_or(*found, "p50", nullptr, -5, 5),
                   number_or(*found, "p90", nullptr, -5, 5)};
  if (r.p10 > r.p50 || r.p50 > r.p90) found->fail("quantiles must ascend: p10 <= p50 <= p90");
  return r;
}

RawValue profile_like(const RawValue& base, RawValue own) {
  const RawValue* base_chip = value_under(base, "accelerator");
  RawValue* chip = value_under(own, "accelerator");
  if (chip != nullptr && base_chip != nullptr) {
    *chip = merged_accelerator(*base_chip, std::move(*chip));
  }
  const RawValue* base_tiers = value_under(base, "tiers");
  RawValue* tiers = value_under(own, "tiers");
  if (tiers != nullptr && base_tiers != nullptr && tiers->kind == RawKind::List) {
    *tiers = merged_tiers(*base_tiers, *tiers);
  }
  return merged(base, std::move(own));
}

}  // namespace plansearch::io
