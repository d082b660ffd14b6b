// SPDX-License-Identifier: Apache-2.0
// The fields of link and fabric curves, in the order of their files, for reader and writer.
#pragma once

#include <concepts>
#include <type_traits>

#include "io/document/fields.hpp"
#include "plansearch/link_curves.hpp"

namespace plansearch::io {

template <typename Curve, typename Visitor>
requires std::same_as<std::remove_const_t<Curve>, LocalLinkCurve>
void visit_fields(Curve& curve, Visitor& visit) {
  visit.time("base", curve.base);
  visit.time("step", curve.step);
  visit.rate("low_latency", curve.low_latency);
  visit.time("low_latency_128_base", curve.low_latency_128_base);
  visit.rate("low_latency_128", curve.low_latency_128);
  visit.time("simple_base", curve.simple_base);
  visit.time("simple_step", curve.simple_step);
  visit.rate("simple", curve.simple);
  visit.time("pairwise_base", curve.pairwise_base);
  visit.number("local_copy", curve.local_copy, 0.0, 10.0);
  visit.fill("fill_at_1_mb", curve.fill);
  visit.reduction("switch_reduction", curve.switch_reduction, curve.switch_base);
  visit.number("sharing_exponent", curve.sharing_exponent, 0.0, 4.0, Need::Optional);
  visit.measured("measured", curve.measured);
  visit.residual(curve.residual);
}

template <typename Curve, typename Visitor>
requires std::same_as<std::remove_const_t<Curve>, FabricCurve>
void visit_fields(Curve& curve, Visitor& visit) {
  visit.time("hop_low_latency", curve.hop_low_latency);
  visit.rate("low_latency", curve.low_latency);
  visit.time("hop", curve.hop);
  visit.time("ring_step", curve.ring_step);
  visit.time("ring_step_low_latency", curve.ring_step_low_latency, Need::Optional);
  visit.fill("fill_at_1_mb", curve.fill);
  visit.fill("forward_fill_at_1_mb", curve.forward_fill);
  visit.number("nic_efficiency", curve.nic_efficiency, 1e-3, 1.0);
  visit.number("efficiency_decay", curve.efficiency_decay, 0.0, 2.0);
  visit.number("step_nic_efficiency", curve.step_nic_efficiency, 1e-3, 1.0);
  visit.number("rail_efficiency", curve.rail_efficiency, 1e-3, 1.0, Need::Optional);
  visit.number("full_node_efficiency", curve.full_node_efficiency, 1e-3, 1.0, Need::Optional);
  visit.boolean("trees", curve.trees);
  visit.number("gather_tree_efficiency", curve.gather_tree_efficiency, 1e-3, 1.0);
  visit.time("gather_tree_hop", curve.gather_tree_hop, Need::Optional);
  visit.time("gather_tree_rank", curve.gather_tree_rank, Need::Optional);
  visit.time("send", curve.send);
  visit.number("send_efficiency", curve.send_efficiency, 1e-3, 1.0);
  visit.time("all_to_all_peer", curve.all_to_all_peer);
  visit.number("jitter_p90", curve.jitter_p90, 1.0, 100.0);
  visit.number("straggler", curve.straggler, 0.0, 10.0, Need::Optional);
  visit.slow_mode("slow_mode", curve.slow_mode);
  visit.residual(curve.residual);
}

}  // namespace plansearch::io
