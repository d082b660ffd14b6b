// SPDX-License-Identifier: Apache-2.0
// A machine: accelerators, link tiers, and the provenance of each number.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "plansearch/concurrency.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/kernel_curves.hpp"
#include "plansearch/link_curves.hpp"
#include "plansearch/provenance.hpp"
#include "plansearch/quantity.hpp"
#include "plansearch/site.hpp"

namespace plansearch {

/// Keys of files, by activity.
inline constexpr std::array<std::string_view, kActivityCount> kActivityKeys{
    "compute", "local", "fabric", "from_host", "to_host"};
[[nodiscard]] constexpr std::string_view key_of(Activity activity) {
  return kActivityKeys[static_cast<std::size_t>(activity)];
}

struct ActivityPair {
  Activity one;
  Activity other;
};
/// Pairs of activities that can share a path. Kernels and messages share multiprocessors instead.
inline constexpr std::array<ActivityPair, 8> kPathPairs{{
    {Activity::Compute, Activity::FromHost},
    {Activity::Compute, Activity::ToHost},
    {Activity::Local, Activity::Fabric},
    {Activity::Local, Activity::FromHost},
    {Activity::Local, Activity::ToHost},
    {Activity::Fabric, Activity::FromHost},
    {Activity::Fabric, Activity::ToHost},
    {Activity::FromHost, Activity::ToHost},
}};

/// One value per pair of activities, whichever comes first.
class ActivityPairs {
 public:
  [[nodiscard]] double of(Activity one, Activity other) const { return value_[at(one, other)]; }
  void set(Activity one, Activity other, double value) {
    value_[at(one, other)] = value;
    value_[at(other, one)] = value;
  }
  bool operator==(const ActivityPairs&) const = default;

 private:
  static std::size_t at(Activity row, Activity column) {
    return static_cast<std::size_t>(row) * kActivityCount + static_cast<std::size_t>(column);
  }
  std::array<double, kActivityCount * kActivityCount> value_{};
};

struct ConcurrencyCoefficients {
  /// Local, Fabric: share of the multiprocessors that messages keep from kernels meanwhile.
  std::array<double, kActivityCount> multiprocessor_share{};
  /// 0: each has a path of its own; 1: they take turns.
  ActivityPairs path_share;
  bool operator==(const ConcurrencyCoefficients&) const = default;
};

/// Provenance by field path, e.g. "peak.bf16"; a path stands for everything below it.
using ProvenanceMap = std::map<std::string, Provenance>;

struct Accelerator {
  std::string name;
  std::vector<std::string> aliases;
  Bytes memory;                ///< capacity the driver reports
  Bandwidth memory_bandwidth;  ///< datasheet peak
  Bytes l2_cache;
  int multiprocessors = 0;  ///< SMs or compute units
  /// Dense peak of the matrix engine; absent where the accelerator has no such format.
  std::array<std::optional<FlopRate>, kDataTypeCount> peak;
  std::optional<double> power_watt;
  /// Whether frameworks run collectives through user buffers during matmuls (Hopper and newer).
  bool user_buffers = false;
  /// Whether its kernels are unmeasured: fractions of the peaks of another architecture.
  bool foreign_kernels = false;
  KernelCurves kernels;
  ConcurrencyCoefficients concurrency;
  ProvenanceMap provenance;

  [[nodiscard]] std::optional<FlopRate> peak_of(DataType type) const {
    return peak.at(static_cast<std::size_t>(type));
  }
  bool operator==(const Accelerator&) const = default;
};

enum class TierKind : std::uint8_t { Switch, Mesh, Ring, Torus, FatTree, Dragonfly };
[[nodiscard]] std::string_view to_text(TierKind kind);

/// Network cards of one node.
struct Nics {
  int per_node = 1;
  Bandwidth bandwidth;  ///< line rate of one card, per direction
  bool operator==(const Nics&) const = default;
};

/// The measured rate of one rank of a group while all its sister groups send.
struct GroupRate {
  int stride = 1;  ///< ranks of the groups inside it
  int ranks = 2;
  Bandwidth rate;
  /// Pairs: of a message from one to the other, where collectives get less.
  std::optional<Bandwidth> sends{};
  bool operator==(const GroupRate&) const = default;
};

/// One level of the network. `size` accelerators can reach each other without a wider tier.
struct LinkTier {
  std::string name;
  TierKind kind = TierKind::Switch;
  int size = 1;
  Bandwidth bandwidth;  ///< per accelerator, per direction, nominal, all of them sending
  std::optional<Bandwidth> pair_bandwidth;  ///< Mesh: what one pair of neighbours has
  std::vector<GroupRate> group_rates;       ///< Links: instead of what follows from the bandwidths
  std::optional<Nics> nics;  ///< present exactly when the tier leaves the node by NICs
  LinkCurve curve;           ///< FabricCurve exactly when `nics` is present
  ProvenanceMap provenance;

  [[nodiscard]] bool is_fabric() const { return std::holds_alternative<FabricCurve>(curve); }
  [[nodiscard]] const LocalLinkCurve& link() const { return std::get<LocalLinkCurve>(curve); }
  [[nodiscard]] const FabricCurve& fabric() const { return std::get<FabricCurve>(curve); }
  /// Line rate of all cards of one node. Only for fabrics.
  [[nodiscard]] Bandwidth node_bandwidth() const {
    return nics.value().bandwidth * static_cast<double>(nics.value().per_node);
  }
  bool operator==(const LinkTier&) const = default;
};

/// Memory and processors of a node, where states can live and be updated.
struct Host {
  Bytes memory;                       ///< of a node
  Bandwidth memory_bandwidth;         ///< of a node, datasheet peak
  Bandwidth to_device;                ///< one accelerator, all of the node copying
  Bandwidth from_device;              ///< the same, in the opposite direction
  double optimizer_efficiency = 1.0;  ///< of an update, share of the memory bandwidth
  bool operator==(const Host&) const = default;
};

/// Known software of the jobs of a machine, where no framework setting says it.
struct SoftwareStack {
  std::optional<std::string> attention_kernel;  ///< a name of KernelCurves::attention
  std::optional<bool> flat_parameters;          ///< FSDP: one flat parameter per block
  std::optional<std::string> implementation;    ///< eager, fused, compiled, te
  std::optional<std::string> kernels;           ///< single fused ones, all others are eager
  bool operator==(const SoftwareStack&) const = default;
};

struct Cluster {
  std::string name;
  std::vector<std::string> like;  ///< names of the profiles it is a change of, the nearest first
  std::vector<std::string> aliases;
  std::string description;
  Accelerator accelerator;
  int accelerators_per_node = 1;
  std::vector<LinkTier> tiers;  ///< innermost first; the last one spans the whole machine
  std::optional<double> price_usd_per_accelerator_hour;
  SoftwareStack software;
  std::optional<Host> host;        ///< absent: nothing is known of it
  std::optional<FittedSite> site;  ///< written by a fit to the machine's own runs
  /// Standard deviation of ln(measured / predicted) of curves without a residual.
  double unmeasured_sigma = 0.0;
  double foreign_sigma = 0.0;  ///< the same of step times, of foreign kernels
  ProvenanceMap provenance;
  std::uint64_t content_hash = 0;  ///< of every file the profile was read from

  [[nodiscard]] int accelerators() const { return tiers.back().size; }
  [[nodiscard]] int nodes() const { return accelerators() / accelerators_per_node; }
  bool operator==(const Cluster&) const = default;
};

/// How many of the profile's numbers rest on each kind of evidence, in the order of `Evidence`.
[[nodiscard]] std::array<int, 4> count_evidence(const Cluster& cluster);

}  // namespace plansearch
