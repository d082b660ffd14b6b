// SPDX-License-Identifier: Apache-2.0
// Computes: sets of modules that some plan may do best to recompute.
// Source: every module takes its kernels once more and gives bytes back. A set is left out where
//         another takes no longer and gives back no less in every block; what is left is tried,
//         cheapest first, until a plan has room: a knapsack by enumeration of its front.
// Assumes: exchanges that `moe` sends again take longer than all other modules together; what a
//          module holds while it runs again is below what it gives back.
// Units: seconds and bytes of one micro-batch.
// Checked by: tests/unit/evaluate/module_choices_test.cpp (against all sets)
#include "evaluate/block/module_choices.hpp"

#include <algorithm>
#include <array>
#include <tuple>

#include "plansearch/network.hpp"

namespace plansearch {
namespace {

bool has_moe(std::uint8_t set) {
  return (LayerModules(set) & bit_of(LayerModule::Moe)).any();
}

Bytes returned_by(const ModuleBytes& parts, std::uint8_t set) {
  Bytes sum;
  for (std::size_t g = 0; g < parts.bytes.size(); ++g) {
    if (parts.returned[g].test(set)) sum += parts.bytes[g];
  }
  return sum;
}

/// Bytes of a block that every module gives back by itself.
using ReturnedAlone = std::array<Bytes, kLayerModuleCount>;

ReturnedAlone returned_alone(const ModuleBytes& parts) {
  ReturnedAlone alone;
  for (std::size_t m = 0; m < alone.size(); ++m) {
    alone[m] = returned_by(parts, static_cast<std::uint8_t>(1U << m));
  }
  return alone;
}

/// Modules are made again one after the other.
Bytes largest(const ReturnedAlone& alone, std::uint8_t set) {
  Bytes most;
  for (std::size_t m = 0; m < alone.size(); ++m) {
    if ((set >> m & 1U) != 0) most = std::max(most, alone[m]);
  }
  return most;
}

/// A set by its place in the list; sums over all copies.
struct SetValue {
  std::size_t place = 0;
  std::uint8_t modules = 0;
  Seconds time;
  Bytes bytes;
};

class SetChooser {
 public:
  SetChooser(const std::vector<std::uint8_t>& sets, const std::vector<ModuleBlock>& blocks)
      : blocks_(blocks), returned_(sets.size() * blocks.size()) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      SetValue value{i, sets[i], {}, {}};
      for (std::size_t b = 0; b < blocks.size(); ++b) {
        returned(i, b) = returned_by(blocks[b].parts, sets[i]);
        value.time += blocks[b].times[i] * blocks[b].copies;
        value.bytes += returned(i, b) * blocks[b].copies;
      }
      if (value.bytes > Bytes(0)) values_.push_back(value);
    }
    const auto key = [](const SetValue& v) {
      return std::tuple(has_moe(v.modules), v.time, Bytes(0) - v.bytes, v.modules);
    };
    std::sort(values_.begin(), values_.end(),
              [&](const SetValue& a, const SetValue& b) { return key(a) < key(b); });
  }

  [[nodiscard]] std::vector<ModuleChoice> run() {
    std::vector<const SetValue*> front;
    std::vector<ModuleChoice> choices;
    std::vector<ReturnedAlone> alone;
    for (const ModuleBlock& block : blocks_) alone.push_back(returned_alone(block.parts));
    for (const SetValue& value : values_) {
      const auto beats_it = [&](const SetValue* other) { return beats(*other, value); };
      if (std::any_of(front.begin(), front.end(), beats_it)) continue;
      front.push_back(&value);
      ModuleChoice& choice = choices.emplace_back(ModuleChoice{value.modules, value.time, {}});
      for (std::size_t b = 0; b < blocks_.size(); ++b) {
        choice.blocks.push_back({returned(value.place, b), largest(alone[b], value.modules)});
      }
    }
    return choices;
  }

 private:
  Bytes& returned(std::size_t place, std::size_t block) {
    return returned_[place * blocks_.size() + block];
  }

  /// Orders that join passes run no `moe` again: it beats nothing that they may run.
  bool beats(const SetValue& a, const SetValue& b) {
    if (has_moe(a.modules) && !has_moe(b.modules)) return false;
    if (a.bytes < b.bytes) return false;  // so it is in some block
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].times[a.place] > blocks_[i].times[b.place]) return false;
      if (returned(a.place, i) < returned(b.place, i)) return false;
    }
    return true;
  }

  const std::vector<ModuleBlock>& blocks_;
  std::vector<Bytes> returned_;  ///< by set and block
  std::vector<SetValue> values_;
};

}  // namespace

std::vector<std::uint8_t> sets_of_modules(const Network& network, LayerModules modules) {
  std::vector<std::uint8_t> sets;
  const auto adds = [&](LayerModules set, LayerModules one) {
    const auto alone = [&](const Operator& op) { return (op.modules & set) == one; };
    return std::any_of(network.blocks.begin(), network.blocks.end(), [&](const Block& block) {
      return std::any_of(block.operators.begin(), block.operators.end(), alone);
    });
  };
  for (unsigned bits = 1; bits < kFewestModules; ++bits) {
    const LayerModules set(bits);
    bool needed = (set & ~modules).none();
    for (std::size_t m = 0; needed && m < kLayerModuleCount; ++m) {
      if (set.test(m)) needed = adds(set, bit_of(static_cast<LayerModule>(m)));
    }
    if (needed) sets.push_back(static_cast<std::uint8_t>(bits));
  }
  return sets;
}

ModuleBytes grouped_parts(const std::vector<ModuleSets>& returned,
                          const std::vector<Bytes>& bytes) {
  ModuleBytes grouped;
  for (std::size_t i = 0; i < returned.size(); ++i) {
    if (returned[i].none()) continue;
    const auto known = std::find(grouped.returned.begin(), grouped.returned.end(), returned[i]);
    if (known == grouped.returned.end()) {
      grouped.returned.push_back(returned[i]);
      grouped.bytes.push_back(bytes[i]);
    } else {
      grouped.bytes[static_cast<std::size_t>(known - grouped.returned.begin())] += bytes[i];
    }
  }
  return grouped;
}

ModuleChoices choose_modules(const std::vector<std::uint8_t>& sets,
                             const std::vector<ModuleBlock>& blocks) {
  return {SetChooser(sets, blocks).run()};
}

}  // namespace plansearch
