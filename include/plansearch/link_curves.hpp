// SPDX-License-Identifier: Apache-2.0
// Fitted speed of the collectives of one link tier. The equations are in src/cost/collective/.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "plansearch/kernel_curves.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// One collective within groups of so many ranks, where its times were measured and follow no law.
struct MeasuredTimes {
  std::string kind;  ///< "all-reduce"
  int ranks = 2;
  std::vector<Bytes> sizes;    ///< of messages, ascending
  std::vector<Seconds> times;  ///< as many, never falling
  bool operator==(const MeasuredTimes&) const = default;
};

/// Links inside a node (or a switched domain): three ring protocols and, where the switch can
/// reduce, a fourth for all-reduce.
struct LocalLinkCurve {
  std::string name;
  std::string origin;     ///< the curve file it is, or is a change of; empty: neither
  Seconds base;           ///< of any collective
  Seconds step;           ///< per ring step
  Bandwidth low_latency;  ///< 8-byte flags with every 8 bytes
  Seconds low_latency_128_base;
  Bandwidth low_latency_128;
  Seconds simple_base;
  Seconds simple_step;
  Bandwidth simple;         ///< large messages, what one rank sustains
  Seconds pairwise_base;    ///< of all-to-all and send/receive, beyond `base`
  double local_copy = 0.0;  ///< share of the own part copied
  double fill = 0.0;        ///< us per sqrt(byte): pipeline fill of the chunked transfer
  std::optional<Bandwidth> switch_reduction;
  Seconds switch_base;
  /// Exponent of (2 / ranks) by which bandwidth falls where ranks share a bus; 0: they do not.
  double sharing_exponent = 0.0;
  std::vector<MeasuredTimes> measured;  ///< in the place of what follows from the constants
  std::optional<Residual> residual;
  bool operator==(const LocalLinkCurve&) const = default;
};

/// Share of measured pipeline runs on `nodes` nodes that were in the slow mode.
struct SlowShare {
  double nodes = 1.0;
  double share = 0.0;
  bool operator==(const SlowShare&) const = default;
};

/// A second mode of steps that no setting explains: a mixture, no part of the spread of the others.
struct SlowMode {
  Seconds excess;                 ///< per slot of a pipeline and neighbouring stage
  std::vector<SlowShare> shares;  ///< nodes ascending; never empty
  bool operator==(const SlowMode&) const = default;
};

/// Links between nodes.
struct FabricCurve {
  std::string name;
  std::string origin;  ///< the curve file it is, or is a change of; empty: neither
  Seconds hop_low_latency;
  Bandwidth low_latency;
  Seconds hop;
  Seconds ring_step;
  /// Per ring step of the flagged protocol, where the cards' message rate is known to bind.
  Seconds ring_step_low_latency;
  double fill = 0.0;              ///< us per sqrt(byte)
  double forward_fill = 0.0;      ///< further us per sqrt(byte) per inner level of a tree
  double nic_efficiency = 1.0;    ///< of line rate, two nodes
  double efficiency_decay = 0.0;  ///< exponent of nodes / 2
  /// Share of line rate inside a training step, where it differs from isolated benchmarks.
  std::optional<double> step_nic_efficiency;
  /// Further factor of groups with some but not all accelerators of each node: off their rail.
  double rail_efficiency = 1.0;
  /// Further factor of groups with all accelerators of each node, where cards are not rails.
  double full_node_efficiency = 1.0;
  bool trees = true;  ///< all-reduces may run over trees; otherwise rings only
  /// Share of line rate that gathers and scatters over trees between single ranks of domains reach;
  /// absent: rings only. Latency: a hop per doubling of the domains, and a share of every rank.
  std::optional<double> gather_tree_efficiency;
  Seconds gather_tree_hop;
  Seconds gather_tree_rank;
  Seconds send;  ///< latency of a send/receive
  double send_efficiency = 1.0;
  Seconds all_to_all_peer;  ///< per remote peer
  double jitter_p90 = 1.0;  ///< slow tail, p90 over median
  double straggler = 0.0;   ///< growth of ln(p90 / median) of a step per doubling of nodes
  std::optional<SlowMode> slow_mode;
  std::optional<Residual> residual;
  bool operator==(const FabricCurve&) const = default;
};

using LinkCurve = std::variant<LocalLinkCurve, FabricCurve>;

}  // namespace plansearch
