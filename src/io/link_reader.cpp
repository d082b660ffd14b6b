// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "io/profile_parts.hpp"

namespace plansearch::io {
namespace {

namespace fs = std::filesystem;

template <typename T, typename Owner>
const T* member(const Owner* owner, T Owner::*field) {
  return owner == nullptr ? nullptr : &(owner->*field);
}

/// A time that grows with the square root of bytes, given at 1 MB; kept per square root of byte.
double fill_or(const Node& node, std::string_view key, const double* base) {
  constexpr double kRootOfMegabyte = 1e3;
  constexpr double kMicrosecond = 1e-6;
  const auto found = node.find(key);
  if (!found && base != nullptr) return *base;
  return time_or(node, key, nullptr).value() / kMicrosecond / kRootOfMegabyte;
}

LocalLinkCurve read_link(const Node& node, const LocalLinkCurve* base) {
  using L = LocalLinkCurve;
  L curve = base != nullptr ? *base : L{};
  curve.base = time_or(node, "base", member(base, &L::base));
  curve.step = time_or(node, "step", member(base, &L::step));
  curve.low_latency = bandwidth_or(node, "low_latency", member(base, &L::low_latency));
  curve.low_latency_128_base =
      time_or(node, "low_latency_128_base", member(base, &L::low_latency_128_base));
  curve.low_latency_128 = bandwidth_or(node, "low_latency_128", member(base, &L::low_latency_128));
  curve.simple_base = time_or(node, "simple_base", member(base, &L::simple_base));
  curve.simple_step = time_or(node, "simple_step", member(base, &L::simple_step));
  curve.simple = bandwidth_or(node, "simple", member(base, &L::simple));
  curve.pairwise_base = time_or(node, "pairwise_base", member(base, &L::pairwise_base));
  curve.local_copy = number_or(node, "local_copy", member(base, &L::local_copy), 0.0, 10.0);
  curve.fill = fill_or(node, "fill_at_1_mb", member(base, &L::fill));
  if (const auto reduction = node.find("switch_reduction")) {
    curve.switch_reduction = reduction->at("bandwidth").positive<Bandwidth>();
    curve.switch_base = reduction->at("base").non_negative<Seconds>();
  }
  const double none = 0.0;
  curve.sharing_exponent = number_or(node, "sharing_exponent",
                                     base != nullptr ? &base->sharing_exponent : &none, 0.0, 4.0);
  curve.residual = read_residual(node, curve.residual);
  return curve;
}

SlowMode read_slow_mode(const Node& node) {
  SlowMode mode;
  mode.excess = node.at("excess").positive<Seconds>();
  const Node list = node.at("shares");
  for (const Node& item : list.items()) {
    const double nodes = number_or(item, "nodes", nullptr, 1.0, 1e7);
    if (!mode.shares.empty() && nodes <= mode.shares.back().nodes) {
      item.fail("numbers of nodes of a slow mode ascend");
    }
    mode.shares.push_back({nodes, number_or(item, "share", nullptr, 0.0, 1.0)});
  }
  if (mode.shares.empty())
    list.fail("a slow mode needs a share", "shares: [{nodes: 1, share: 0.1}]");
  return mode;
}

FabricCurve read_fabric(const Node& node, const FabricCurve* base) {
  using F = FabricCurve;
  F curve = base != nullptr ? *base : F{};
  curve.hop_low_latency = time_or(node, "hop_low_latency", member(base, &F::hop_low_latency));
  curve.low_latency = bandwidth_or(node, "low_latency", member(base, &F::low_latency));
  curve.hop = time_or(node, "hop", member(base, &F::hop));
  curve.ring_step = time_or(node, "ring_step", member(base, &F::ring_step));
  const Seconds unbound = curve.ring_step_low_latency;
  curve.ring_step_low_latency = time_or(node, "ring_step_low_latency", &unbound);
  curve.fill = fill_or(node, "fill_at_1_mb", member(base, &F::fill));
  curve.forward_fill = fill_or(node, "forward_fill_at_1_mb", member(base, &F::forward_fill));
  curve.nic_efficiency =
      number_or(node, "nic_efficiency", member(base, &F::nic_efficiency), 1e-3, 1.0);
  curve.efficiency_decay =
      number_or(node, "efficiency_decay", member(base, &F::efficiency_decay), 0.0, 2.0);
  if (node.find("step_nic_efficiency")) {
    curve.step_nic_efficiency = number_or(node, "step_nic_efficiency", nullptr, 1e-3, 1.0);
  }
  const double rail = curve.rail_efficiency;
  curve.rail_efficiency = number_or(node, "rail_efficiency", &rail, 1e-3, 1.0);
  const double full = curve.full_node_efficiency;
  curve.full_node_efficiency = number_or(node, "full_node_efficiency", &full, 1e-3, 1.0);
  if (const auto trees = node.find("trees")) curve.trees = trees->boolean();
  curve.send = time_or(node, "send", member(base, &F::send));
  curve.send_efficiency =
      number_or(node, "send_efficiency", member(base, &F::send_efficiency), 1e-3, 1.0);
  curve.all_to_all_peer = time_or(node, "all_to_all_peer", member(base, &F::all_to_all_peer));
  curve.jitter_p90 = number_or(node, "jitter_p90", member(base, &F::jitter_p90), 1.0, 100.0);
  const double steady = curve.straggler;
  curve.straggler = number_or(node, "straggler", &steady, 0.0, 10.0);
  if (const auto slow = node.find("slow_mode")) curve.slow_mode = read_slow_mode(*slow);
  curve.residual = read_residual(node, curve.residual);
  return curve;
}

void scale(LocalLinkCurve& curve, double factor) {
  curve.low_latency *= factor;
  curve.low_latency_128 *= factor;
  curve.simple *= factor;
  if (curve.switch_reduction) *curve.switch_reduction *= factor;
}

Provenance curve_provenance(const Node& node) {
  FieldLog log;
  log.given("curve");
  return log.provenance(node, {}).at("curve");
}

/// As stated there, else as a change of the curve it is like.
template <typename Curve>
Provenance stated_provenance(const Node& node, const std::optional<CurveAndSource<Curve>>& base) {
  const Provenance stated = curve_provenance(node);
  if (node.find("provenance") || !base) return stated;
  return {Evidence::Assumed,
          fmt::format("{} with changes ({})", base->curve.name, base->from.source)};
}

/// A curve file, opened and checked: its root stays valid while the document lives.
Document open_curve(std::string_view name, std::string_view what, const std::string& folder,
                    std::string_view schema, ProfileLibrary& library, const SourceLocation& where) {
  const fs::path beside = fs::path(where.file).parent_path();
  Document document =
      library.open(resolve_file(name, library.files(std::string(what), folder, beside), where));
  require_schema(document.root(), schema);
  return document;
}

/// The name of a curve file; its own origin where it is like no other.
template <typename Curve>
void read_names(const Node& root, Curve& curve) {
  curve.name = root.at("name").text();
  if (curve.origin.empty()) curve.origin = curve.name;
  if (const auto text = root.find("description")) (void)text->text();
  if (const auto aliases = root.find("aliases")) aliases->ignore();
  root.finish();
}

/// A link as its file, and those it is like, describe it.
struct LinkFile {
  CurveAndSource<LocalLinkCurve> link;
  Bandwidth nominal;
};

LinkFile read_link_file(std::string_view name, ProfileLibrary& library, const SourceLocation& where,
                        int depth) {
  const Document document =
      open_curve(name, "link curve", "links", "plansearch/link/v1", library, where);
  const Node root = document.root();
  std::optional<LinkFile> base;
  if (const auto like = root.find("like")) {
    if (depth > kMaxLikeDepth) like->fail("`like` refers back to itself");
    base = read_link_file(like->text(), library, like->where(), depth + 1);
  }
  LinkFile file;
  file.link.curve = read_link(root, base ? &base->link.curve : nullptr);
  file.link.from = stated_provenance(root, base ? std::optional(base->link) : std::nullopt);
  file.nominal = bandwidth_or(root, "nominal_bandwidth", base ? &base->nominal : nullptr);
  read_names(root, file.link.curve);
  return file;
}

CurveAndSource<LocalLinkCurve> load_link(std::string_view name, const LinkTier& tier,
                                         ProfileLibrary& library, const SourceLocation& where) {
  LinkFile file = read_link_file(name, library, where, 0);
  auto& [curve, from] = file.link;
  const double factor = tier.bandwidth / file.nominal;
  scale(curve, factor);
  constexpr double kSame = 0.01;
  if (std::abs(factor - 1.0) > kSame) {
    from = {Evidence::Assumed,
            fmt::format("{} scaled by {:.3g} ({})", curve.name, factor, from.source)};
  }
  return {curve, from};
}

CurveAndSource<FabricCurve> load_fabric(std::string_view name, ProfileLibrary& library,
                                        const SourceLocation& where, int depth = 0) {
  const Document document =
      open_curve(name, "fabric curve", "fabrics", "plansearch/fabric/v1", library, where);
  const Node root = document.root();
  std::optional<CurveAndSource<FabricCurve>> base;
  if (const auto like = root.find("like")) {
    if (depth > kMaxLikeDepth) like->fail("`like` refers back to itself");
    base = load_fabric(like->text(), library, like->where(), depth + 1);
  }
  FabricCurve curve = read_fabric(root, base ? &base->curve : nullptr);
  const Provenance from = stated_provenance(root, base);
  read_names(root, curve);
  return {curve, from};
}

std::string default_curve(const std::vector<TierRule>& rules, const LinkTier& tier,
                          const Node& node) {
  for (const TierRule& rule : rules) {
    if (rule.kind && *rule.kind != tier.kind) continue;
    if (tier.bandwidth >= rule.min_bandwidth) return rule.curve;
  }
  node.fail("no default curve fits this tier", "name one with link: or fabric:");
}

Provenance by_default(const Provenance& from) {
  return {Evidence::Assumed, "by default rule: " + from.source};
}

}  // namespace

CurveAndSource<LocalLinkCurve> read_link_curve(const Node& tier_node, const LinkTier& tier,
                                               ProfileLibrary& library) {
  const auto link = tier_node.find("link");
  if (!link) {
    const std::string name = default_curve(library.defaults().links, tier, tier_node);
    CurveAndSource<LocalLinkCurve> found = load_link(name, tier, library, tier_node.where());
    found.from = by_default(found.from);
    return found;
  }
  if (!link->is_map()) return load_link(link->text(), tier, library, link->where());
  std::optional<CurveAndSource<LocalLinkCurve>> base;
  if (const auto like = link->find("like")) {
    base = load_link(like->text(), tier, library, like->where());
  }
  LocalLinkCurve curve = read_link(*link, base ? &base->curve : nullptr);
  if (curve.name.empty()) curve.name = tier.name;
  return {curve, stated_provenance(*link, base)};
}

CurveAndSource<FabricCurve> read_fabric_curve(const Node& tier_node, const LinkTier& tier,
                                              ProfileLibrary& library) {
  const auto fabric = tier_node.find("fabric");
  if (!fabric) {
    const std::string name = default_curve(library.defaults().fabrics, tier, tier_node);
    CurveAndSource<FabricCurve> found = load_fabric(name, library, tier_node.where());
    found.from = by_default(found.from);
    return found;
  }
  if (!fabric->is_map()) return load_fabric(fabric->text(), library, fabric->where());
  std::optional<CurveAndSource<FabricCurve>> base;
  if (const auto like = fabric->find("like")) {
    base = load_fabric(like->text(), library, like->where());
  }
  FabricCurve curve = read_fabric(*fabric, base ? &base->curve : nullptr);
  if (curve.name.empty()) curve.name = tier.name;
  return {curve, stated_provenance(*fabric, base)};
}

LinkTier device_tier(ProfileLibrary& library, const SourceLocation& where) {
  const Defaults& defaults = library.defaults();
  LinkTier tier;
  tier.name = "device";
  tier.kind = TierKind::Switch;
  tier.size = 1;
  tier.bandwidth = defaults.device_bandwidth;
  const auto found = load_link(defaults.device_curve, tier, library, where);
  tier.curve = found.curve;
  tier.provenance["curve"] = by_default(found.from);
  tier.provenance["bandwidth"] = {Evidence::Assumed, "default path to the network cards"};
  return tier;
}

}  // namespace plansearch::io
