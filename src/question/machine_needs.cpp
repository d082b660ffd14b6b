// SPDX-License-Identifier: Apache-2.0
#include "question/framework_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/names.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {
namespace {

/// "pcie and network" where none of the tiers of the kind has a name that is asked for.
std::string other_names(const Cluster& machine, const std::vector<std::string>& asked,
                        bool fabric) {
  std::vector<std::string> names;
  for (const LinkTier& tier : machine.tiers) {
    if (tier.is_fabric() != fabric) continue;
    const bool known = std::any_of(asked.begin(), asked.end(), [&](const std::string& name) {
      return canonical_name(name) == canonical_name(tier.name);
    });
    // Links inside a node join all of it; narrower ones do not reach its other devices.
    if (known && (fabric || tier.size >= machine.accelerators_per_node)) return {};
    names.push_back(tier.name);
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

/// The parts that the machine has in place of the needed ones; empty: nothing is missing.
std::string missing(const MachineNeed& need, const Cluster& machine) {
  if (!need.links.empty() && machine.accelerators_per_node > 1) {
    const std::string names = other_names(machine, need.links, false);
    if (!names.empty()) {
      return fmt::format("needs {} inside a node, {} has {}", fmt::join(need.links, " or "),
                         machine.name, names);
    }
  }
  if (!need.fabrics.empty()) {
    const std::string names = other_names(machine, need.fabrics, true);
    if (!names.empty()) {
      return fmt::format("needs {} between nodes, {} has {}", fmt::join(need.fabrics, " or "),
                         machine.name, names);
    }
  }
  int linked = 1;
  for (const LinkTier& tier : machine.tiers) {
    if (!tier.is_fabric()) linked = std::max(linked, tier.size);
  }
  if (need.most_linked && linked > *need.most_linked) {
    return fmt::format("links of {} join {} accelerators, more than {}", machine.name, linked,
                       *need.most_linked);
  }
  if (need.format && !machine.accelerator.peak_of(*need.format)) {
    return fmt::format("{} has no {}", machine.accelerator.name, to_text(*need.format));
  }
  return {};
}

}  // namespace

std::optional<std::string> unmet_need(std::span<const MachineNeed> needs, const Cluster& machine) {
  for (const MachineNeed& need : needs) {
    const std::string what = missing(need, machine);
    if (!what.empty()) return fmt::format("{} ({})", what, need.message);
  }
  return std::nullopt;
}

void check_named_kernels(const Network& network, const Framework& framework) {
  for (const Block& block : network.blocks) {
    for (const Operator& op : block.operators) {
      const auto named = [&](const NamedKernel& kernel) { return kernel.name == op.kernel; };
      const auto& known = framework.named_kernels;
      const bool unpriced = traits(op).cost == CostClass::Recurrence ? op.kernel.empty() : false;
      if (!unpriced && (op.kernel.empty() || std::any_of(known.begin(), known.end(), named)))
        continue;
      std::string names;
      for (const NamedKernel& kernel : known) {
        if (names.find(kernel.name) == std::string::npos)
          names += (names.empty() ? "" : ", ") + kernel.name;
      }
      throw InputError(
          {},
          fmt::format("{} of {} runs kernel '{}', of which {} has no rates", op.name, block.name,
                      op.kernel, framework.name),
          names.empty() ? "name a table in the framework file (recurrences:)" : "known: " + names);
    }
  }
}

}  // namespace plansearch
