// SPDX-License-Identifier: Apache-2.0
// The fields of link and fabric curves, in the order of their files, for reader and writer.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <type_traits>

#include "base/ranges.hpp"
#include "io/document/fields.hpp"
#include "io/hardware/profile_reader.hpp"
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

namespace {

namespace fs = std::filesystem;

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

MeasuredTimes read_measured_times(const Node& node) {
  constexpr std::size_t kFewest = 2;
  constexpr std::array<std::string_view, 5> kKinds{"all-gather", "reduce-scatter", "all-reduce",
                                                   "all-to-all", "send-receive"};
  MeasuredTimes table;
  const Node kind = node.at("kind");
  table.kind = kind.text();
  if (!contains(kKinds, table.kind)) {
    kind.fail(fmt::format("no collective '{}'", table.kind),
              fmt::format("one of {}", fmt::join(kKinds, ", ")));
  }
  table.ranks = node.at("ranks").count(2);
  for (const Node& size : node.at("sizes").items()) table.sizes.push_back(size.positive<Bytes>());
  for (const Node& time : node.at("times").items()) table.times.push_back(time.positive<Seconds>());
  if (table.sizes.size() != table.times.size() || table.sizes.size() < kFewest) {
    node.fail(fmt::format("{} sizes and {} times", table.sizes.size(), table.times.size()),
              "give a time for each of two sizes or more");
  }
  const auto rises = [](const auto& a, const auto& b) { return !(a < b); };
  if (std::ranges::adjacent_find(table.sizes, rises) != table.sizes.end() ||
      !std::ranges::is_sorted(table.times)) {
    node.fail("sizes must rise, and times must not fall");
  }
  return table;
}

class LinkReader : public CurveReader {
 public:
  using CurveReader::CurveReader;
  using CurveReader::number;

  /// Given at 1 MB; kept in us per square root of byte.
  void fill(std::string_view key, double& field) const {
    constexpr double kRootOfMegabyte = 1e3;
    constexpr double kMicrosecond = 1e-6;
    if (based_ && !node_.find(key)) return;
    field = time_or(node_, key, nullptr).value() / kMicrosecond / kRootOfMegabyte;
  }
  void number(std::string_view key, std::optional<double>& field, double low, double high) const {
    if (node_.find(key)) field = number_or(node_, key, nullptr, low, high);
  }
  void boolean(std::string_view key, bool& field) const {
    if (const auto found = node_.find(key)) field = found->boolean();
  }
  void reduction(std::string_view key, std::optional<Bandwidth>& rate, Seconds& base) const {
    const auto found = node_.find(key);
    if (!found) return;
    rate = found->at("bandwidth").positive<Bandwidth>();
    base = found->at("base").non_negative<Seconds>();
  }
  void measured(std::string_view key, std::vector<MeasuredTimes>& field) const {
    const auto found = node_.find(key);
    if (!found) return;
    field.clear();
    for (const Node& table : found->items()) field.push_back(read_measured_times(table));
  }
  void slow_mode(std::string_view key, std::optional<SlowMode>& field) const {
    if (const auto found = node_.find(key)) field = read_slow_mode(*found);
  }
};

template <typename Curve>
Curve read_curve(const Node& node, const std::optional<CurveAndSource<Curve>>& base) {
  Curve curve = base ? base->curve : Curve{};
  const LinkReader reader(node, base.has_value());
  visit_fields(curve, reader);
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

/// The provenance stated in the node, else that of a change of the curve it is like.
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
  curve.name = root.at("name").name();
  if (curve.origin.empty()) curve.origin = curve.name;
  if (const auto text = root.find("description")) (void)text->text();
  if (const auto aliases = root.find("aliases")) aliases->ignore();
  root.finish();
}

/// A curve as its file, and those it is like, describe it; links with the bandwidth they were
/// measured at.
template <typename Curve>
CurveAndSource<Curve> read_curve_file(std::string_view name, ProfileLibrary& library,
                                      const SourceLocation& where, int depth, Bandwidth* nominal) {
  constexpr bool kLink = std::is_same_v<Curve, LocalLinkCurve>;
  const Document document =
      kLink ? open_curve(name, "link curve", "links", "plansearch/link/v1", library, where)
            : open_curve(name, "fabric curve", "fabrics", "plansearch/fabric/v1", library, where);
  const Node root = document.root();
  std::optional<CurveAndSource<Curve>> base;
  if (const auto like = root.find("like")) {
    if (depth > kMaxLikeDepth) like->fail("`like` refers back to itself");
    base = read_curve_file<Curve>(like->text(), library, like->where(), depth + 1, nominal);
  }
  Curve curve = read_curve(root, base);
  const Provenance from = stated_provenance(root, base);
  if constexpr (kLink) *nominal = bandwidth_or(root, "nominal_bandwidth", base ? nominal : nullptr);
  read_names(root, curve);
  return {curve, from};
}

CurveAndSource<LocalLinkCurve> load_link(std::string_view name, const LinkTier& tier,
                                         ProfileLibrary& library, const SourceLocation& where) {
  Bandwidth nominal;
  auto [curve, from] = read_curve_file<LocalLinkCurve>(name, library, where, 0, &nominal);
  const double factor = tier.bandwidth / nominal;
  scale(curve, factor);
  constexpr double kSame = 0.01;
  if (std::abs(factor - 1.0) > kSame) {
    from = {Evidence::Assumed,
            fmt::format("{} scaled by {:.3g} ({})", curve.name, factor, from.source)};
  }
  return {curve, from};
}

CurveAndSource<FabricCurve> load_fabric(std::string_view name, const LinkTier& /*tier*/,
                                        ProfileLibrary& library, const SourceLocation& where) {
  return read_curve_file<FabricCurve>(name, library, where, 0, nullptr);
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

/// Reads the curve under `key`, by name or as described there; else by the rules of the defaults.
template <typename Load>
auto read_tier_curve(const Node& tier_node, const LinkTier& tier, ProfileLibrary& library,
                     std::string_view key, std::vector<TierRule> Defaults::*rules, Load load) {
  const auto given = tier_node.find(key);
  if (!given) {
    auto found = load(default_curve(library.defaults().*rules, tier, tier_node), tier, library,
                      tier_node.where());
    found.from = by_default(found.from);
    return found;
  }
  if (!given->is_map()) return load(given->text(), tier, library, given->where());
  std::optional<decltype(load({}, tier, library, {}))> base;
  if (const auto like = given->find("like"))
    base = load(like->text(), tier, library, like->where());
  auto curve = read_curve(*given, base);
  if (curve.name.empty()) curve.name = tier.name;
  return decltype(load({}, tier, library, {})){curve, stated_provenance(*given, base)};
}

class LinkWriter {
 public:
  void number(std::string_view key, double value, double /*low*/, double /*high*/,
              Need /*need*/ = Need::Required) {
    add(key, fmt::format("{:.6g}", value));
  }
  void number(std::string_view key, const std::optional<double>& value, double low, double high) {
    if (value) number(key, *value, low, high);
  }
  void time(std::string_view key, Seconds value, Need /*need*/ = Need::Required) {
    add(key, fmt::format("{:.6g} us", value.value() * 1e6));
  }
  void rate(std::string_view key, Bandwidth value) {
    add(key, fmt::format("{:.6g} GB/s", value.value() * 1e-9));
  }
  /// Kept in us per square root of byte, written for 1 MB.
  void fill(std::string_view key, double value) { add(key, fmt::format("{:.6g} us", value * 1e3)); }
  void boolean(std::string_view key, bool value) { add(key, value ? "true" : "false"); }
  void reduction(std::string_view key, const std::optional<Bandwidth>& rate, Seconds base) {
    if (!rate) return;
    LinkWriter map;
    map.rate("bandwidth", *rate);
    map.time("base", base);
    add(key, map.text());
  }
  void slow_mode(std::string_view key, const std::optional<SlowMode>& mode) {
    if (!mode) return;
    std::vector<std::string> shares = transformed(mode->shares, [&](const SlowShare& share) {
      return fmt::format("{{nodes: {:.6g}, share: {:.6g}}}", share.nodes, share.share);
    });
    add(key, fmt::format("{{excess: {:.6g} us, shares: [{}]}}", mode->excess.value() * 1e6,
                         fmt::join(shares, ", ")));
  }
  void measured(std::string_view key, const std::vector<MeasuredTimes>& all) {
    if (all.empty()) return;
    std::vector<std::string> tables;
    for (const MeasuredTimes& table : all) {
      std::vector<std::string> sizes;
      std::vector<std::string> times;
      for (const Bytes size : table.sizes) sizes.push_back(fmt::format("{:.0f} B", size.value()));
      for (const Seconds time : table.times) {
        times.push_back(fmt::format("{:.6g} us", time.value() * 1e6));
      }
      tables.push_back(fmt::format("{{kind: {}, ranks: {}, sizes: [{}], times: [{}]}}", table.kind,
                                   table.ranks, fmt::join(sizes, ", "), fmt::join(times, ", ")));
    }
    add(key, fmt::format("[{}]", fmt::join(tables, ", ")));
  }
  void residual(const std::optional<Residual>& value) {
    if (!value) return;
    add("residual", fmt::format("{{p10: {:.6g}, p50: {:.6g}, p90: {:.6g}}}", value->p10, value->p50,
                                value->p90));
  }
  [[nodiscard]] std::string text() const {
    return fmt::format("{{{}}}", fmt::join(entries_, ", "));
  }

 private:
  void add(std::string_view key, const std::string& value) {
    entries_.push_back(fmt::format("{}: {}", key, value));
  }

  std::vector<std::string> entries_;
};

}  // namespace

CurveAndSource<LocalLinkCurve> read_link_curve(const Node& tier_node, const LinkTier& tier,
                                               ProfileLibrary& library) {
  return read_tier_curve(tier_node, tier, library, "link", &Defaults::links, load_link);
}

CurveAndSource<FabricCurve> read_fabric_curve(const Node& tier_node, const LinkTier& tier,
                                              ProfileLibrary& library) {
  return read_tier_curve(tier_node, tier, library, "fabric", &Defaults::fabrics, load_fabric);
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

std::string curve_text(const LinkCurve& curve) {
  LinkWriter writer;
  std::visit([&](const auto& kind) { visit_fields(kind, writer); }, curve);
  return writer.text();
}

}  // namespace plansearch::io
