// SPDX-License-Identifier: Apache-2.0
#include "io/link_writer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <vector>

namespace plansearch::io {
namespace {

class FlowMap {
 public:
  void number(std::string_view key, double value) { add(key, fmt::format("{:.6g}", value)); }
  void time(std::string_view key, Seconds value) {
    add(key, fmt::format("{:.6g} us", value.value() * 1e6));
  }
  void rate(std::string_view key, Bandwidth value) {
    add(key, fmt::format("{:.6g} GB/s", value.value() * 1e-9));
  }
  /// Kept in us per square root of byte, written for 1 MB.
  void fill(std::string_view key, double value) { add(key, fmt::format("{:.6g} us", value * 1e3)); }
  void residual(const std::optional<Residual>& value) {
    if (!value) return;
    add("residual", fmt::format("{{p10: {:.6g}, p50: {:.6g}, p90: {:.6g}}}", value->p10, value->p50,
                                value->p90));
  }
  void add(std::string_view key, const std::string& value) {
    entries_.push_back(fmt::format("{}: {}", key, value));
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{{{}}}", fmt::join(entries_, ", "));
  }

 private:
  std::vector<std::string> entries_;
};

std::string text_of(const LocalLinkCurve& curve) {
  FlowMap map;
  map.time("base", curve.base);
  map.time("step", curve.step);
  map.rate("low_latency", curve.low_latency);
  map.time("low_latency_128_base", curve.low_latency_128_base);
  map.rate("low_latency_128", curve.low_latency_128);
  map.time("simple_base", curve.simple_base);
  map.time("simple_step", curve.simple_step);
  map.rate("simple", curve.simple);
  map.time("pairwise_base", curve.pairwise_base);
  map.number("local_copy", curve.local_copy);
  map.fill("fill_at_1_mb", curve.fill);
  if (curve.switch_reduction) {
    FlowMap reduction;
    reduction.rate("bandwidth", *curve.switch_reduction);
    reduction.time("base", curve.switch_base);
    map.add("switch_reduction", reduction.text());
  }
  map.number("sharing_exponent", curve.sharing_exponent);
  map.residual(curve.residual);
  return map.text();
}

std::string text_of(const FabricCurve& curve) {
  FlowMap map;
  map.time("hop_low_latency", curve.hop_low_latency);
  map.rate("low_latency", curve.low_latency);
  map.time("hop", curve.hop);
  map.time("ring_step", curve.ring_step);
  map.time("ring_step_low_latency", curve.ring_step_low_latency);
  map.fill("fill_at_1_mb", curve.fill);
  map.fill("forward_fill_at_1_mb", curve.forward_fill);
  map.number("nic_efficiency", curve.nic_efficiency);
  map.number("efficiency_decay", curve.efficiency_decay);
  if (curve.step_nic_efficiency) map.number("step_nic_efficiency", *curve.step_nic_efficiency);
  map.number("rail_efficiency", curve.rail_efficiency);
  map.number("full_node_efficiency", curve.full_node_efficiency);
  map.add("trees", curve.trees ? "true" : "false");
  map.time("send", curve.send);
  map.number("send_efficiency", curve.send_efficiency);
  map.time("all_to_all_peer", curve.all_to_all_peer);
  map.number("jitter_p90", curve.jitter_p90);
  map.number("straggler", curve.straggler);
  if (curve.slow_mode) {
    std::vector<std::string> shares;
    for (const SlowShare& share : curve.slow_mode->shares) {
      shares.push_back(fmt::format("{{nodes: {:.6g}, share: {:.6g}}}", share.nodes, share.share));
    }
    map.add("slow_mode",
            fmt::format("{{excess: {:.6g} us, shares: [{}]}}",
                        curve.slow_mode->excess.value() * 1e6, fmt::join(shares, ", ")));
  }
  map.residual(curve.residual);
  return map.text();
}

}  // namespace

std::string curve_text(const LinkCurve& curve) {
  return std::visit([](const auto& kind) { return text_of(kind); }, curve);
}

}  // namespace plansearch::io
