// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "io/hardware/profile_parts.hpp"

namespace plansearch::io {
namespace {

/// Kernels keep at least a tenth of the chip.
constexpr double kMostTaken = 0.9;
constexpr std::array kMessages{Activity::Local, Activity::Fabric};

double& share_of(ConcurrencyCoefficients& shared, Activity messages) {
  return shared.multiprocessor_share[static_cast<std::size_t>(messages)];
}

std::string multiprocessor_field(Activity messages) {
  return fmt::format("concurrency.multiprocessors.{}", key_of(messages));
}

Activity activity(const Node::Entry& entry) {
  const auto found = std::find(kActivityKeys.begin(), kActivityKeys.end(), entry.key);
  if (found == kActivityKeys.end()) {
    throw InputError(entry.where, fmt::format("unknown activity '{}'", entry.key),
                     fmt::format("one of {}", fmt::join(kActivityKeys, ", ")));
  }
  return static_cast<Activity>(found - kActivityKeys.begin());
}

const ActivityPair& path_pair(const Node::Entry& entry, Activity one, Activity other) {
  for (const ActivityPair& pair : kPathPairs) {
    if ((pair.one == one && pair.other == other) || (pair.one == other && pair.other == one)) {
      return pair;
    }
  }
  throw InputError(entry.where, fmt::format("{} and {} have no path", key_of(one), key_of(other)),
                   one == other
                       ? "what runs at once as one activity shares it evenly"
                       : "`multiprocessors: {...}` is the share that messages take from kernels");
}

/// Chips of which nothing is known: as many multiprocessors as elsewhere, the paths of elsewhere.
ConcurrencyCoefficients by_default(const Accelerator& chip, const Defaults& defaults,
                                   ProvenanceMap& inherited) {
  ConcurrencyCoefficients shared;
  const double share =
      std::min(defaults.collective_multiprocessors / chip.multiprocessors, kMostTaken / 2.0);
  for (const Activity messages : kMessages) {
    share_of(shared, messages) = share;
    inherited[multiprocessor_field(messages)] = {
        Evidence::Assumed,
        fmt::format("{:g} multiprocessors, default", defaults.collective_multiprocessors)};
  }
  shared.path_share = defaults.path_share;
  for (const auto& [one, other] : kPathPairs) {
    if (shared.path_share.of(one, other) == 0.0) continue;
    inherited[fmt::format("concurrency.paths.{}.{}", key_of(one), key_of(other))] = {
        Evidence::Assumed, "default"};
  }
  return shared;
}

ConcurrencyCoefficients take_from(const Accelerator& donor, ProvenanceMap& inherited) {
  for (const auto& [field, from] : donor.provenance) {
    if (!field.starts_with("concurrency")) continue;
    inherited[field] = {Evidence::Assumed, fmt::format("as {} ({})", donor.name, from.source)};
  }
  return donor.concurrency;
}

void read_multiprocessors(const Node& node, ConcurrencyCoefficients& shared, FieldLog& log) {
  double taken = 0.0;
  for (const Activity messages : kMessages) {
    double& share = share_of(shared, messages);
    if (node.find(key_of(messages))) {
      share = number_or(node, key_of(messages), nullptr, 0.0, kMostTaken);
      log.given(multiprocessor_field(messages));
    }
    taken += share;
  }
  if (taken > kMostTaken) {
    node.fail(fmt::format("local and fabric together take {:g} of the multiprocessors", taken),
              fmt::format("kernels keep a tenth: at most {:g} together", kMostTaken));
  }
}

}  // namespace

void read_paths(const Node& node, ActivityPairs& paths,
                const std::function<void(const std::string&)>& given) {
  std::set<std::pair<Activity, Activity>> known;
  for (const Node::Entry& outer : node.entries()) {
    const Activity one = activity(outer);
    for (const Node::Entry& inner : outer.value.entries()) {
      const ActivityPair& pair = path_pair(inner, one, activity(inner));
      if (!known.emplace(pair.one, pair.other).second) {
        throw InputError(
            inner.where,
            fmt::format("{} and {} are given twice", key_of(pair.one), key_of(pair.other)),
            "one value holds for both");
      }
      paths.set(pair.one, pair.other, number_or(outer.value, inner.key, nullptr, 0.0, 1.0));
      given(fmt::format("concurrency.paths.{}.{}", key_of(pair.one), key_of(pair.other)));
    }
  }
}

ConcurrencyCoefficients read_concurrency(const Node& accelerator_node, const Accelerator& so_far,
                                         const Accelerator* base, ProfileLibrary& library,
                                         FieldLog& log, ProvenanceMap& inherited, int depth) {
  const auto section = accelerator_node.find("concurrency");
  const auto like = section ? section->find("like") : std::nullopt;
  ConcurrencyCoefficients shared;
  if (like) {
    shared =
        take_from(find_accelerator(like->text(), library, like->where(), depth + 1), inherited);
  } else if (base != nullptr) {
    shared = base->concurrency;
  } else {
    shared = by_default(so_far, library.defaults(), inherited);
  }
  if (!section) return shared;
  if (const auto units = section->find("multiprocessors"))
    read_multiprocessors(*units, shared, log);
  if (const auto paths = section->find("paths")) {
    read_paths(*paths, shared.path_share, [&](const std::string& field) { log.given(field); });
  }
  return shared;
}

}  // namespace plansearch::io
