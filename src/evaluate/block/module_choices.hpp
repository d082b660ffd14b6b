// SPDX-License-Identifier: Apache-2.0
// Which sets of modules are worth recomputing in a class of plans.
#pragma once

#include <bitset>
#include <cstdint>
#include <vector>

#include "evaluate/block/local_work.hpp"
#include "plansearch/layer_module.hpp"

namespace plansearch {

/// By bits of LayerModules.
using ModuleSets = std::bitset<kFewestModules>;

/// Bytes that one micro-batch of a block saves, part by part: tensors, then copies around
/// attention, operator by operator.
[[nodiscard]] std::vector<Bytes> saved_parts(const PricingContext& context,
                                             const LocalBlock& local);
/// By part: under which of these sets running the modules again brings it back.
[[nodiscard]] std::vector<ModuleSets> returned_parts(const PricingContext& context,
                                                     const LocalBlock& local,
                                                     const std::vector<std::uint8_t>& sets);

/// All sets of these modules in which no module runs again what the others do already.
[[nodiscard]] std::vector<std::uint8_t> sets_of_modules(const Network& network,
                                                        LayerModules modules);

/// The change in the memory of a block from recomputing a set of modules.
struct ModuleMemory {
  Bytes returned;  ///< of what one micro-batch keeps
  Bytes again;     ///< of that, what the largest module holds while its own backward runs
};

struct ModuleChoice {
  std::uint8_t modules = 0;
  Seconds time;                      ///< kernels that run again, of one micro-batch
  std::vector<ModuleMemory> blocks;  ///< by block
};

/// The sets that no other beats in kernels and in bytes of every block.
struct ModuleChoices {
  std::vector<ModuleChoice> sets;  ///< cheapest first; those with `moe` behind all others
};

/// The choices of one block: parts that come back together, and the time of each set.
struct ModuleBytes {
  std::vector<ModuleSets> returned;  ///< by group of parts
  std::vector<Bytes> bytes;          ///< of each group
};
[[nodiscard]] ModuleBytes grouped_parts(const std::vector<ModuleSets>& returned,
                                        const std::vector<Bytes>& bytes);

/// One block of a network: its copies, its parts, its kernels.
struct ModuleBlock {
  double copies = 0.0;
  ModuleBytes parts;
  std::vector<Seconds> times;  ///< of kernels that run again, by place in the list of sets
};
[[nodiscard]] ModuleChoices choose_modules(const std::vector<std::uint8_t>& sets,
                                           const std::vector<ModuleBlock>& blocks);

}  // namespace plansearch
