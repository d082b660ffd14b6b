// SPDX-License-Identifier: Apache-2.0
#include <variant>

#include "answer/show.hpp"

namespace plansearch {
namespace {

void add_residual(ShownRows& rows, const std::string& field,
                  const std::optional<Residual>& residual) {
  if (!residual) return;
  rows.text(field + ".residual",
            fmt::format("{:+.1f} % / {:+.1f} % / {:+.1f} %", 100.0 * residual->p10,
                        100.0 * residual->p50, 100.0 * residual->p90),
            "p10, p50, p90 of measured over fitted time, less one");
}

void add_matmul(ShownRows& rows, const std::string& field, const MatmulCurve& curve) {
  rows.number(field + ".flop_efficiency", curve.flop_efficiency, "", "of peak, in full waves");
  rows.number(field + ".byte_efficiency", curve.byte_efficiency, "", "of memory bandwidth");
  rows.quantity(field + ".launch", curve.launch);
  rows.number(field + ".power_droop", curve.power_droop, "", "slow-down once the chip is hot");
  add_residual(rows, field, curve.residual);
}

void add_attention(ShownRows& rows, const std::string& field, const AttentionCurve& curve) {
  rows.number(field + ".flop_efficiency", curve.flop_efficiency, "", "of the bf16 peak");
  rows.quantity(field + ".launch", curve.launch);
  add_residual(rows, field, curve.residual);
}

ShownSection accelerator_section(const Accelerator& chip) {
  ShownRows rows("accelerator " + chip.name, chip.provenance);
  rows.quantity("memory", chip.memory);
  rows.quantity("memory_bandwidth", chip.memory_bandwidth);
  rows.quantity("l2_cache", chip.l2_cache);
  rows.count("multiprocessors", chip.multiprocessors);
  for (std::size_t i = 0; i < kDataTypeCount; ++i) {
    const auto name = std::string(to_text(static_cast<DataType>(i)));
    if (chip.peak[i]) rows.quantity("peak." + name, *chip.peak[i], "dense");
  }
  if (chip.power_watt) rows.number("power", *chip.power_watt, "W");
  rows.text("foreign_kernels", chip.foreign_kernels ? "yes" : "no",
            "fractions of the peaks of another architecture");
  rows.text("user_buffers", chip.user_buffers ? "yes" : "no",
            "collectives beside matmuls through user buffers");
  return rows.take();
}

ShownSection kernel_section(const Accelerator& chip) {
  const KernelCurves& kernels = chip.kernels;
  ShownRows rows("kernels", chip.provenance);
  for (std::size_t i = 0; i < kDataTypeCount; ++i) {
    const auto name = std::string(to_text(static_cast<DataType>(i)));
    if (kernels.matmul[i]) add_matmul(rows, "kernels.matmul." + name, *kernels.matmul[i]);
  }
  if (kernels.matmul_fp8_block) {
    add_matmul(rows, "kernels.matmul.fp8_block", *kernels.matmul_fp8_block);
  }
  for (const AttentionKernel& kernel : kernels.attention) {
    const std::string field = "kernels.attention." + kernel.name;
    add_attention(rows, field + ".forward", kernel.forward);
    if (kernel.backward) add_attention(rows, field + ".backward", *kernel.backward);
  }
  rows.number("kernels.stream.efficiency", kernels.stream.efficiency, "", "of memory bandwidth");
  rows.quantity("kernels.stream.launch", kernels.stream.launch);
  return rows.take();
}

ShownSection concurrency_section(const Accelerator& chip) {
  ShownRows rows("concurrency", chip.provenance);
  const ConcurrencyCoefficients& shared = chip.concurrency;
  for (const Activity messages : {Activity::Local, Activity::Fabric}) {
    rows.number(fmt::format("concurrency.multiprocessors.{}", key_of(messages)),
                shared.multiprocessor_share[static_cast<std::size_t>(messages)], "",
                "share that messages keep from kernels meanwhile");
  }
  for (const auto& [one, other] : kPathPairs) {
    const double share = shared.path_share.of(one, other);
    if (share == 0.0) continue;
    rows.number(fmt::format("concurrency.paths.{}.{}", key_of(one), key_of(other)), share, "",
                "0: own paths, 1: they take turns");
  }
  return rows.take();
}

void add_curve(ShownRows& rows, const LocalLinkCurve& curve) {
  rows.text("link", curve.name);
  rows.under("curve");
  rows.quantity("link.base", curve.base, "of any collective");
  rows.quantity("link.step", curve.step, "per ring step");
  rows.quantity("link.simple", curve.simple, "large messages, what one rank sustains");
  rows.quantity("link.low_latency", curve.low_latency, "small messages");
  if (curve.switch_reduction) {
    rows.quantity("link.switch_reduction", *curve.switch_reduction, "summed in the switch");
  }
  if (curve.sharing_exponent > 0.0) {
    rows.number("link.sharing_exponent", curve.sharing_exponent, "", "ranks that share a bus");
  }
  add_residual(rows, "link", curve.residual);
}

void add_curve(ShownRows& rows, const FabricCurve& curve) {
  rows.text("fabric", curve.name);
  rows.under("curve");
  rows.quantity("fabric.hop", curve.hop, "latency");
  rows.quantity("fabric.ring_step", curve.ring_step);
  rows.number("fabric.nic_efficiency", curve.nic_efficiency, "", "of line rate, two nodes");
  rows.number("fabric.efficiency_decay", curve.efficiency_decay, "", "exponent of nodes / 2");
  if (curve.step_nic_efficiency) {
    rows.number("fabric.step_nic_efficiency", *curve.step_nic_efficiency, "",
                "of line rate inside a training step");
  }
  if (!curve.trees) rows.text("fabric.trees", "no");
  rows.quantity("fabric.send", curve.send);
  rows.number("fabric.send_efficiency", curve.send_efficiency);
  rows.number("fabric.rail_efficiency", curve.rail_efficiency);
  rows.number("fabric.jitter_p90", curve.jitter_p90, "", "p90 over median");
  rows.number("fabric.straggler", curve.straggler, "", "growth of the slow tail per doubling");
  if (curve.slow_mode) {
    rows.quantity("fabric.slow_mode.excess", curve.slow_mode->excess, "per slot and neighbour");
    for (const SlowShare& share : curve.slow_mode->shares) {
      rows.number(fmt::format("fabric.slow_mode.on_{:.0f}_nodes", share.nodes), share.share, "",
                  "share of runs");
    }
  }
  add_residual(rows, "fabric", curve.residual);
}

ShownSection tier_section(const LinkTier& tier) {
  ShownRows rows("tier " + tier.name, tier.provenance);
  rows.text("kind", std::string(to_text(tier.kind)));
  rows.count("size", tier.size, {}, "accelerators");
  if (tier.nics) rows.under("nic_bandwidth");  // it follows from the cards
  rows.quantity("bandwidth", tier.bandwidth, "per accelerator and direction");
  rows.under({});
  if (tier.pair_bandwidth) rows.quantity("pair_bandwidth", *tier.pair_bandwidth);
  for (const GroupRate& group : tier.group_rates) {
    rows.quantity(fmt::format("group_rates.{}x{}", group.stride, group.ranks), group.rate,
                  "measured, stride x ranks");
    if (!group.sends) continue;
    rows.quantity(fmt::format("group_rates.{}x{}.sends", group.stride, group.ranks), *group.sends,
                  "messages from one to the other");
  }
  if (tier.nics) {
    rows.count("nics_per_node", tier.nics->per_node);
    rows.quantity("nic_bandwidth", tier.nics->bandwidth);
  }
  std::visit([&](const auto& curve) { add_curve(rows, curve); }, tier.curve);
  return rows.take();
}

}  // namespace

Shown show_cluster(const Cluster& cluster) {
  Shown shown{"hw", cluster.name, cluster.description, cluster.aliases, {}};
  ShownRows rows("machine", cluster.provenance);
  rows.text("accelerator", cluster.accelerator.name);
  rows.count("accelerators_per_node", cluster.accelerators_per_node);
  rows.count("nodes", cluster.nodes());
  rows.count("accelerators", cluster.accelerators());
  if (cluster.price_usd_per_accelerator_hour) {
    rows.number("price", *cluster.price_usd_per_accelerator_hour, "USD/h", "per accelerator");
  }
  if (cluster.software.attention_kernel) {
    rows.text("software.attention_kernel", *cluster.software.attention_kernel);
  }
  if (cluster.host) {
    rows.quantity("host.memory", cluster.host->memory, "of a node");
    rows.quantity("host.memory_bandwidth", cluster.host->memory_bandwidth, "of a node");
    rows.quantity("host.to_device", cluster.host->to_device, "all of a node copying");
    rows.quantity("host.from_device", cluster.host->from_device, "all of a node copying");
  }
  shown.sections.push_back(rows.take());
  shown.sections.push_back(accelerator_section(cluster.accelerator));
  shown.sections.push_back(kernel_section(cluster.accelerator));
  shown.sections.push_back(concurrency_section(cluster.accelerator));
  for (const LinkTier& tier : cluster.tiers) shown.sections.push_back(tier_section(tier));
  return shown;
}

}  // namespace plansearch
