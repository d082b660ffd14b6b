// SPDX-License-Identifier: Apache-2.0
// What machine: accelerators, link tiers, and where each number comes from.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "plansearch/base/data_type.hpp"
#include "plansearch/base/provenance.hpp"
#include "plansearch/base/quantity.hpp"
#include "plansearch/hardware/kernel_curves.hpp"
#include "plansearch/hardware/link_curves.hpp"

namespace plansearch {

struct Accelerator {
  std::string name;
  std::vector<std::string> aliases;
  Bytes memory;                ///< capacity the driver reports
  Bandwidth memory_bandwidth;  ///< datasheet peak
  Bytes l2_cache;
  int multiprocessors = 0;     ///< SMs or compute units
  /// Dense peak of the matrix engine; absent where the accelerator has no such format.
  std::array<std::optional<FlopRate>, kDataTypeCount> peak;
  KernelCurves kernels;
  std::map<std::string, Provenance> provenance;  ///< by field path, e.g. "peak.bf16"
};

enum class TierKind { Switch, Mesh, Ring, Torus, FatTree, Dragonfly };

/// One level of the network. `size` accelerators can reach each other without a wider tier.
struct LinkTier {
  std::string name;
  TierKind kind = TierKind::Switch;
  int size = 1;
  Bandwidth bandwidth;                       ///< per accelerator, per direction, nominal
  std::optional<Bandwidth> pair_bandwidth;   ///< Mesh: what one pair of neighbours has
  LinkCurve curve;                           ///< how much of it collectives get, and latencies
  std::map<std::string, Provenance> provenance;
};

struct Cluster {
  std::string name;
  std::vector<std::string> aliases;
  Accelerator accelerator;
  int accelerators_per_node = 1;
  std::vector<LinkTier> tiers;  ///< innermost first; the last one spans the whole machine
  std::optional<double> price_usd_per_accelerator_hour;
  std::optional<double> accelerator_power_watt;
  std::map<std::string, Provenance> provenance;

  [[nodiscard]] int accelerators() const { return tiers.back().size; }
};

}  // namespace plansearch
