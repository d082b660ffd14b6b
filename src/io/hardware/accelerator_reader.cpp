// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "io/document/fields.hpp"
#include "io/hardware/profile_parts.hpp"

namespace plansearch::io {
namespace {

namespace fs = std::filesystem;

/// Refuses values no machine has: nearly always a wrong prefix.
template <typename Q>
void require_plausible(const Node& node, Q value, Q low, Q high) {
  if (value < low || value > high) {
    node.fail(fmt::format("{} is not plausible", to_text(value)),
              fmt::format("expected {} to {}; is the prefix right?", to_text(low), to_text(high)));
  }
}

/// A required quantity, or the base's.
template <typename Q>
Q quantity_or(const Node& node, std::string_view key, const Accelerator* base,
              Q Accelerator::*field, FieldLog& log, Q low, Q high) {
  const auto found = node.find(key);
  if (!found && base != nullptr) return base->*field;
  const Node value = found ? *found : node.at(key);
  const Q quantity = value.positive<Q>();
  require_plausible(value, quantity, low, high);
  log.given(std::string(key));
  return quantity;
}

void read_peaks(const Node& peaks, Accelerator& accelerator, FieldLog& log,
                ProvenanceMap& inherited) {
  for (const Node::Entry& entry : peaks.entries()) {
    const auto type = parse_data_type(entry.key);
    if (!type) {
      throw InputError(entry.where, fmt::format("unknown number format '{}'", entry.key),
                       "one of fp64, fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4");
    }
    const std::string field = fmt::format("peak.{}", to_text(*type));
    auto& slot = accelerator.peak.at(static_cast<std::size_t>(*type));
    if (entry.value.text() == "none") {
      slot.reset();
      inherited.erase(field);
      continue;
    }
    const FlopRate rate = entry.value.positive<FlopRate>();
    require_plausible(entry.value, rate, FlopRate(1e8), FlopRate(1e18));
    slot = rate;
    log.given(field);
  }
}

/// Wider formats are never faster than narrower ones of the same engine.
void require_ordered_peaks(const Node& node, const Accelerator& accelerator) {
  constexpr std::array<DataType, 4> kFasterFirst = {DataType::Nvfp4, DataType::Fp8, DataType::Bf16,
                                                    DataType::Tf32};
  std::optional<DataType> faster;
  for (const DataType type : kFasterFirst) {
    const auto peak = accelerator.peak_of(type);
    if (!peak) continue;
    if (faster && *accelerator.peak_of(*faster) < *peak) {
      node.fail(
          fmt::format("peak of {} ({}) is above that of the narrower {} ({})", to_text(type),
                      to_text(*peak), to_text(*faster), to_text(*accelerator.peak_of(*faster))),
          "give dense peaks, without sparsity");
    }
    faster = type;
  }
  constexpr std::array<DataType, 3> kTrained = {DataType::Bf16, DataType::Fp16, DataType::Fp32};
  if (std::ranges::none_of(kTrained,
                           [&](DataType type) { return accelerator.peak_of(type).has_value(); })) {
    node.fail("neither peak.bf16 nor peak.fp16 nor peak.fp32 is given",
              "e.g. peak: {bf16: 312 TFLOP/s}");
  }
}

void read_datasheet(const Node& node, const Accelerator* base, Accelerator& accelerator,
                    const Defaults& defaults, FieldLog& log, ProvenanceMap& inherited) {
  using A = Accelerator;
  accelerator.memory = quantity_or(node, "memory", base, &A::memory, log, Bytes(1e9), Bytes(1e14));
  accelerator.memory_bandwidth = quantity_or(node, "memory_bandwidth", base, &A::memory_bandwidth,
                                             log, Bandwidth(1e9), Bandwidth(1e15));
  if (const auto l2 = node.find("l2_cache")) {
    accelerator.l2_cache = l2->positive<Bytes>();
    log.given("l2_cache");
  } else if (base == nullptr) {
    accelerator.l2_cache = defaults.l2_cache;
    inherited["l2_cache"] = {Evidence::Assumed, "default"};
  }
  const Fields fields(node, &log);
  fields.take("multiprocessors", accelerator.multiprocessors,
              [](const Node& units) { return units.count(1, 1'000'000); });
  fields.take("power", accelerator.power_watt,
              [](const Node& power) { return power.positive<Watts>().value; });
  fields.take("user_buffers", accelerator.user_buffers, &Node::boolean);
  fields.take("foreign_kernels", accelerator.foreign_kernels, &Node::boolean);
  const auto peaks = node.find("peak");
  if (peaks || base == nullptr) read_peaks(node.at("peak"), accelerator, log, inherited);
  require_ordered_peaks(peaks ? *peaks : node, accelerator);
}

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
  const auto found = std::ranges::find(kActivityKeys, entry.key);
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

Accelerator read_accelerator(const Node& node, ProfileLibrary& library, int depth) {
  if (depth > kMaxLikeDepth) node.fail("`like` refers back to itself");
  std::optional<Accelerator> base;
  if (const auto like = node.find("like")) {
    base = find_accelerator(like->text(), library, like->where(), depth + 1);
  }
  Accelerator accelerator = base.value_or(Accelerator{});
  if (const auto name = node.find("name")) {
    accelerator.name = name->text();
  } else if (!base) {
    accelerator.name = node.at("name").name();
  } else {
    accelerator.name = base->name + " (changed)";
  }
  accelerator.aliases.clear();
  Fields(node).take("aliases", accelerator.aliases, &Node::texts);
  Fields(node).with("description", &Node::text);
  FieldLog log;
  ProvenanceMap inherited = accelerator.provenance;
  const Accelerator* base_pointer = base ? &*base : nullptr;
  // Kernels of the nearest generation; their file may say that the architecture is the same.
  if (!base && !node.find("kernels")) accelerator.foreign_kernels = true;
  read_datasheet(node, base_pointer, accelerator, library.defaults(), log, inherited);
  if (!base && !node.find("multiprocessors")) {
    const Accelerator donor = kernel_donor(node, accelerator, library, depth);
    accelerator.multiprocessors = donor.multiprocessors;
    inherited["multiprocessors"] = {Evidence::Assumed, "as " + donor.name};
  }
  accelerator.kernels =
      read_kernels(node, accelerator, base_pointer, library, log, inherited, depth);
  accelerator.concurrency =
      read_concurrency(node, accelerator, base_pointer, library, log, inherited, depth);
  accelerator.provenance = log.provenance(node, inherited);
  return accelerator;
}

Accelerator find_accelerator(std::string_view name, ProfileLibrary& library,
                             const SourceLocation& where, int depth) {
  const fs::path beside = fs::path(where.file).parent_path();
  const fs::path path =
      resolve_file(name, library.files("accelerator", "accelerators", beside), where);
  if (depth > kMaxLikeDepth) throw InputError(where, "`like` refers back to itself");
  const Document document = library.open(path);
  const Node root = document.root();
  require_schema(root, "plansearch/accelerator/v1");
  Accelerator accelerator = read_accelerator(root, library, depth);
  root.finish();
  return accelerator;
}

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
