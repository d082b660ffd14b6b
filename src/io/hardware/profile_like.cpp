// SPDX-License-Identifier: Apache-2.0
#include "io/hardware/profile_parts.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace plansearch::io {
namespace {

constexpr std::string_view kProvenance = "provenance";
/// Keys of one file alone: they are not inherited and have no source of their own.
constexpr std::array<std::string_view, 5> kOwn{"schema", "name", "aliases", "description", "like"};

bool is_own(std::string_view key) {
  return std::find(kOwn.begin(), kOwn.end(), key) != kOwn.end();
}

template <typename Map>
auto* entry_of(Map& map, std::string_view key) {
  const auto found = std::find_if(map.entries.begin(), map.entries.end(),
                                  [&](const RawEntry& entry) { return entry.key == key; });
  return found == map.entries.end() ? nullptr : &*found;
}

RawValue list_at(const RawValue& place) {
  RawValue value;
  value.kind = RawKind::List;
  value.line = place.line;
  value.column = place.column;
  value.file = place.file;
  return value;
}

/// Provenance of both files; the first statement about a field holds.
RawValue merged_provenance(const RawValue& base, const RawValue& own) {
  RawValue list = list_at(own);
  const auto append = [&](const RawValue& map) {
    if (const RawEntry* entry = entry_of(map, kProvenance)) {
      list.items.insert(list.items.end(), entry->value.items.begin(), entry->value.items.end());
    }
  };
  append(own);
  append(base);
  return list;
}

RawValue merged(const RawValue& base, RawValue own) {
  RawValue provenance = merged_provenance(base, own);
  for (const RawEntry& entry : base.entries) {
    if (!is_own(entry.key) && entry_of(own, entry.key) == nullptr) own.entries.push_back(entry);
  }
  if (RawEntry* entry = entry_of(own, kProvenance)) {
    entry->value = std::move(provenance);
  } else if (!provenance.items.empty()) {
    own.entries.push_back(
        {std::string(kProvenance), provenance.line, provenance.column, provenance});
  }
  return own;
}

RawValue merged_tiers(const RawValue& base, const RawValue& own) {
  const auto name_of = [](const RawValue& tier) {
    const RawEntry* name = entry_of(tier, "name");
    return name == nullptr ? std::string() : name->value.text;
  };
  RawValue tiers = list_at(own);
  tiers.items = base.items;
  for (const RawValue& tier : own.items) {
    const auto same =
        std::find_if(tiers.items.begin(), tiers.items.end(),
                     [&](const RawValue& known) { return name_of(known) == name_of(tier); });
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
    const RawEntry* below = entry_of(base, entry.key);
    if (below == nullptr || entry.key == kProvenance) continue;
    entry.value = merged_deep(below->value, std::move(entry.value));
  }
  RawValue provenance = merged_provenance(base, own);
  for (const RawEntry& entry : base.entries) {
    if (entry_of(own, entry.key) == nullptr) own.entries.push_back(entry);
  }
  if (RawEntry* entry = entry_of(own, kProvenance)) entry->value = std::move(provenance);
  return own;
}

/// An accelerator that is like none is a change of the base's.
RawValue merged_accelerator(const RawValue& base, RawValue own) {
  if (own.kind != RawKind::Map || entry_of(own, "like") != nullptr) return own;
  if (entry_of(own, "memory") != nullptr && entry_of(own, "multiprocessors") != nullptr) return own;
  if (base.kind == RawKind::Map) return merged_deep(base, std::move(own));
  own.entries.push_back({"like", base.line, base.column, base});
  return own;
}

}  // namespace

RawValue profile_like(const RawValue& base, RawValue own) {
  const RawEntry* base_chip = entry_of(std::as_const(base), "accelerator");
  if (RawEntry* chip = entry_of(own, "accelerator"); chip != nullptr && base_chip != nullptr) {
    chip->value = merged_accelerator(base_chip->value, std::move(chip->value));
  }
  const RawEntry* base_tiers = entry_of(std::as_const(base), "tiers");
  if (RawEntry* tiers = entry_of(own, "tiers");
      tiers != nullptr && base_tiers != nullptr && tiers->value.kind == RawKind::List) {
    tiers->value = merged_tiers(base_tiers->value, tiers->value);
  }
  return merged(base, std::move(own));
}

}  // namespace plansearch::io
