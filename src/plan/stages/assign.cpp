// SPDX-License-Identifier: Apache-2.0
// Computes: stages and chunks from blocks assigned to devices by selectors, and back.
// Source: assign of nnScaler (OSDI 2024, section 3.1), by the names of a network.
// Assumes: a block lies whole on one set of devices; sets are equal or share no device.
// Units: ranks, copies of blocks.
// Checked by: tests/unit/plan/assign_test.cpp
#include "plan/stages/assign.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace plansearch {
namespace {

using Fault = std::optional<EntryFault>;

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

class Assigner {
 public:
  Assigner(const std::vector<AssignEntry>& entries, const Network& network,
           const std::vector<bool>& shared)
      : entries_(entries),
        network_(network),
        shared_(shared),
        copies_(block_copies(network)),
        entry_of_(copies_.size(), kNowhere) {}

  std::variant<std::vector<AssignedStage>, EntryFault> run() {
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      auto bad = check_selection(entries_[e].what, network_);
      if (!bad) bad = find_stage(e);
      if (!bad) bad = take(e);
      if (!bad) continue;
      bad->entry = e;
      return *std::move(bad);
    }
    carry_shared();
    if (auto bad = check_complete()) return *std::move(bad);
    collect();
    if (auto bad = check_chunks()) return *std::move(bad);
    return stages_;
  }

 private:
  [[nodiscard]] const Block& block_of(std::size_t copy) const {
    return network_.blocks[copies_[copy].block];
  }

  /// "layer 3 (decoder)", "embedding"
  [[nodiscard]] std::string words(std::size_t copy) const {
    const std::string name = plain_block_name(block_of(copy).name);
    const auto& layer = copies_[copy].layer;
    return layer ? fmt::format("layer {} ({})", *layer, name) : name;
  }

  Fault find_stage(std::size_t e) {
    for (std::size_t other = 0; other < e; ++other) {
      if (entries_[other].devices != entries_[e].devices) continue;
      stage_of_entry_.push_back(stage_of_entry_[other]);
      return std::nullopt;
    }
    for (const DeviceRange& range : entries_[e].devices) listed_ += device_count(range);
    if (listed_ > kMostDevices) {
      return EntryFault{"more devices than any machine has", "ranks of the plan, from 0"};
    }
    std::vector<int> devices = devices_of(entries_[e].devices);
    std::ranges::sort(devices);
    if (const auto twice = std::adjacent_find(devices.begin(), devices.end());
        twice != devices.end()) {
      return EntryFault{fmt::format("device {} is named twice", *twice), "a set of devices"};
    }
    const auto [known, fresh] = stage_of_.emplace(devices, stages_.size());
    stage_of_entry_.push_back(known->second);
    if (!fresh) return std::nullopt;
    for (const int device : devices) {
      const auto [holder, alone] = holder_.emplace(device, e);
      if (alone) continue;
      return EntryFault{
          fmt::format("device {} is also in another set of devices", device),
          "a stage has devices of its own: the same set in every entry of a stage, or none of it"};
    }
    stages_.push_back({std::move(devices), {}, e});
    return std::nullopt;
  }

  /// Marks the copies that an entry means.
  Fault take(std::size_t e) {
    const AssignEntry& entry = entries_[e];
    bool found = entry.what.of.empty();
    for (std::size_t c = 0; c < copies_.size(); ++c) {
      if (!selects_copy(entry.what, copies_[c])) continue;
      const Block& block = block_of(c);
      const bool is_shared = !shared_.empty() && shared_[c];
      if (is_shared && entry.what.of == std::vector<std::string>{"*"}) continue;
      const auto meant = std::ranges::count_if(
          block.operators, [&](const Operator& op) { return selects(entry.what.of, block, op); });
      if (meant == 0) continue;
      found = true;
      if (meant < std::ssize(block.operators)) {
        return EntryFault{fmt::format("{} of {} operators of {} are assigned", meant,
                                      block.operators.size(), words(c)),
                          "a block lies whole on one set of devices, which transform splits "
                          "operators over"};
      }
      if (is_shared) {
        return EntryFault{fmt::format("{} is assigned twice", words(c)),
                          "another entry puts it on all devices: let selectors not overlap"};
      }
      if (entry_of_[c] != kNowhere) {
        return EntryFault{fmt::format("{} is assigned twice", words(c)),
                          "every operator lies on one set of devices: let selectors not overlap"};
      }
      entry_of_[c] = e;
    }
    if (found) return std::nullopt;
    return EntryFault{"the entry means no operator: its layers or copies are of other blocks",
                      "leave it out"};
  }

  /// Blocks on all devices go with a stage, to be taken off it.
  void carry_shared() {
    if (shared_.empty()) return;
    for (std::size_t c = copies_.size(); c-- > 0;) {
      if (shared_[c] && c + 1 < copies_.size()) entry_of_[c] = entry_of_[c + 1];
    }
    for (std::size_t c = 1; c < copies_.size(); ++c) {
      if (shared_[c] && entry_of_[c] == kNowhere) entry_of_[c] = entry_of_[c - 1];
    }
  }

  [[nodiscard]] Fault check_complete() const {
    const auto missing = std::ranges::find(entry_of_, kNowhere);
    if (missing == entry_of_.end()) return std::nullopt;
    return EntryFault{fmt::format("{} is assigned nowhere",
                                  words(static_cast<std::size_t>(missing - entry_of_.begin()))),
                      "one more entry, or a wider selector: every operator needs devices",
                      entries_.size() - 1};
  }

  /// Chunks by number where entries say it; elsewhere what is consecutive is one.
  void collect() {
    for (std::size_t c = 0; c < copies_.size(); ++c) {
      const std::size_t e = entry_of_[c];
      auto& chunks = stages_[stage_of_entry_[e]].chunks;
      if (entries_[e].chunk) {
        const auto number = static_cast<std::size_t>(*entries_[e].chunk);
        if (chunks.size() <= number) chunks.resize(number + 1);
        chunks[number].push_back(c);
        continue;
      }
      const bool apart = c == 0 || stage_of_entry_[entry_of_[c - 1]] != stage_of_entry_[e];
      if (apart) chunks.emplace_back();
      chunks.back().push_back(c);
    }
  }

  /// Chunks that hold nothing may stand behind those that do.
  [[nodiscard]] Fault check_chunks() {
    std::size_t most = 0;
    for (const AssignedStage& stage : stages_) most = std::max(most, stage.chunks.size());
    const bool numbered =
        std::ranges::any_of(entries_, [](const AssignEntry& entry) { return !!entry.chunk; });
    for (AssignedStage& stage : stages_) {
      if (stage.chunks.size() == most) continue;
      if (!numbered && !stage.chunks.empty()) {
        return EntryFault{fmt::format("devices {} hold {} separate runs of blocks, others {}",
                                      text_of(stage), stage.chunks.size(), most),
                          "all stages have as many chunks", stage.entry};
      }
      stage.chunks.resize(most);
    }
    return std::nullopt;
  }

  static std::string text_of(const AssignedStage& stage) {
    return to_text(device_ranges(stage.devices).front());
  }

  const std::vector<AssignEntry>& entries_;
  const Network& network_;
  const std::vector<bool>& shared_;
  std::vector<BlockCopy> copies_;
  std::vector<std::size_t> entry_of_;  ///< by copy
  std::vector<std::size_t> stage_of_entry_;
  std::int64_t listed_ = 0;  ///< devices of all entries
  std::map<std::vector<int>, std::size_t> stage_of_;
  std::map<int, std::size_t> holder_;
  std::vector<AssignedStage> stages_;
};

/// Ranks from `at` that follow each other.
int run_at(const std::vector<int>& devices, std::size_t at) {
  std::size_t end = at + 1;
  while (end < devices.size() && devices[end] == devices[end - 1] + 1) ++end;
  return static_cast<int>(end - at);
}

}  // namespace

std::int64_t device_count(const DeviceRange& range) {
  const std::int64_t span = std::int64_t{range.last} - range.first;
  return span / range.step * range.width +
         std::min<std::int64_t>(span % range.step + 1, range.width);
}

std::vector<int> devices_of(const std::vector<DeviceRange>& ranges) {
  std::vector<int> devices;
  for (const DeviceRange& range : ranges) {
    for (std::int64_t at = range.first; at <= range.last; at += range.step) {
      for (std::int64_t i = at; i < at + range.width && i <= range.last; ++i) {
        devices.push_back(static_cast<int>(i));
      }
    }
  }
  return devices;
}

std::vector<DeviceRange> device_ranges(const std::vector<int>& devices) {
  if (devices.empty()) return {};
  const int width = run_at(devices, 0);
  const auto wide = static_cast<std::size_t>(width);
  if (wide == devices.size()) return {{devices.front(), devices.back(), 1, 1}};
  const DeviceRange even{devices.front(), devices.back(), devices[wide] - devices.front(), width};
  const bool whole = devices.size() % wide == 0 && device_count(even) == std::ssize(devices);
  if (whole && devices_of(std::vector<DeviceRange>{even}) == devices) return {even};
  std::vector<DeviceRange> ranges;
  for (std::size_t at = 0; at < devices.size();) {
    const int run = run_at(devices, at);
    ranges.push_back({devices[at], devices[at] + run - 1, 1, 1});
    at += static_cast<std::size_t>(run);
  }
  return ranges;
}

std::string to_text(const DeviceRange& range) {
  std::string text = fmt::format("{}", range.first);
  if (range.last > range.first) text += fmt::format("-{}", range.last);
  if (range.step > 1) text += fmt::format(":{}", range.step);
  if (range.step > 1 && range.width > 1) text += fmt::format("*{}", range.width);
  return text;
}

std::variant<std::vector<AssignedStage>, EntryFault> stages_of(
    const std::vector<AssignEntry>& entries, const Network& network,
    const std::vector<bool>& shared) {
  return Assigner(entries, network, shared).run();
}

std::vector<std::vector<std::vector<std::size_t>>> places_of(const ParallelPlan& plan) {
  const Assignment& assignment = *plan.assignment;
  std::vector<std::vector<std::vector<std::size_t>>> held(
      assignment.positions.size(),
      std::vector<std::vector<std::size_t>>(static_cast<std::size_t>(assignment.chunks)));
  std::size_t next = 0;
  for (std::size_t k = 0; k < assignment.groups_per_replica(); ++k) {
    const OperatorGroup& group = assignment.groups[k];
    auto& places =
        held[static_cast<std::size_t>(group.position)][static_cast<std::size_t>(group.chunk)];
    for (const BlockRun& run : group.blocks) {
      for (std::int64_t i = 0; i < run.count; ++i) places.push_back(next++);
    }
  }
  return held;
}

std::vector<AssignEntry> assign_entries(const ParallelPlan& plan, const Network& network,
                                        const std::vector<bool>& shared) {
  std::vector<AssignEntry> entries;
  auto held = places_of(plan);
  if (!shared.empty()) {
    for (auto& position : held) {
      for (auto& chunk : position) {
        std::erase_if(chunk, [&](std::size_t place) { return shared[place]; });
      }
    }
  }
  for (std::size_t position = 0; position < held.size(); ++position) {
    std::vector<int> devices = ranks_of(plan, static_cast<int>(position));
    std::ranges::sort(devices);
    const std::vector<DeviceRange> ranges = device_ranges(devices);
    for (std::size_t chunk = 0; chunk < held[position].size(); ++chunk) {
      for (Selection& what : selections_of(held[position][chunk], network)) {
        AssignEntry& entry = entries.emplace_back(AssignEntry{std::move(what), ranges, {}});
        if (plan.assignment->chunks > 1) entry.chunk = static_cast<int>(chunk);
      }
    }
    const bool idle = entries.empty() || entries.back().devices != ranges;
    if (idle) entries.push_back({{}, ranges, {}});
  }
  return entries;
}

}  // namespace plansearch
