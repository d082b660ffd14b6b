// SPDX-License-Identifier: Apache-2.0
#include "io/hardware/profile_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/hash.hpp"
#include "base/ranges.hpp"
#include "io/document/fields.hpp"
#include "io/hardware/profile_parts.hpp"
#include "plansearch/operator_passes.hpp"

namespace plansearch::io {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxAccelerators = 100'000'000;

/// Bandwidth as written: per accelerator, divided when several share it.
struct TierRate {
  Bandwidth bandwidth;
  int shared_by = 1;
};

TierRate read_rate(const Node& node, int node_size, FieldLog& log) {
  TierRate rate;
  rate.bandwidth = node.at("bandwidth").positive<Bandwidth>();
  log.given("bandwidth");
  if (const auto shared = node.find("shared_by")) {
    rate.shared_by = shared->count(1, node_size);
    if (node_size % rate.shared_by != 0) {
      shared->fail(fmt::format("{} does not divide the {} accelerators of a node", rate.shared_by,
                               node_size));
    }
    log.given("shared_by");
  }
  return rate;
}

/// NICs as given, or as `bandwidth` and `shared_by` imply.
Nics read_nics(const Node& node, int node_size, FieldLog& log) {
  const auto count = node.find("nics_per_node");
  const auto rate = node.find("nic_bandwidth");
  if (count || rate) {
    for (const char* key : {"bandwidth", "shared_by"}) {
      if (const auto other = node.find(key)) {
        other->fail(fmt::format("{} and nics_per_node say the same thing twice", key),
                    "give either nics_per_node and nic_bandwidth, or bandwidth and shared_by");
      }
    }
    log.given("nics_per_node");
    log.given("nic_bandwidth");
    return {node.at("nics_per_node").count(1, 1024),
            node.at("nic_bandwidth").positive<Bandwidth>()};
  }
  if (!node.find("bandwidth")) {
    node.fail("key 'bandwidth' is missing",
              "give either nics_per_node and nic_bandwidth, or bandwidth (and shared_by)");
  }
  const TierRate shared = read_rate(node, node_size, log);
  return {node_size / shared.shared_by, shared.bandwidth};
}

void require_nested_sizes(const Node& size, const LinkTier& tier, const LinkTier* inner,
                          int node_size) {
  if (inner != nullptr && tier.size <= inner->size) {
    size.fail(fmt::format("size {} is not above {}, the size of tier '{}'", tier.size, inner->size,
                          inner->name),
              "list tiers innermost first; each one spans more accelerators");
  }
  if (inner != nullptr && tier.size % inner->size != 0) {
    size.fail(fmt::format("size {} is not a multiple of {}, the size of tier '{}'", tier.size,
                          inner->size, inner->name),
              "every tier holds a whole number of the tiers inside it");
  }
  if (tier.size > node_size ? tier.size % node_size != 0 : node_size % tier.size != 0) {
    size.fail(fmt::format("size {} and the {} accelerators of a node do not divide", tier.size,
                          node_size));
  }
}

/// Whether the tier is reached through network cards: as its keys say, else by its kind; else a
/// tier wider than a node is, unless it is what joins the accelerators of a node.
bool leaves_by_nic(const Node& node, TierKind kind, int size, const LinkTier* inner,
                   int node_size) {
  if (node.find("link")) {
    if (const auto fabric = node.find("fabric")) {
      fabric->fail("a tier is either a link or a fabric", "remove one of the two keys");
    }
    return false;
  }
  if (node.find("fabric") || node.find("nics_per_node") || node.find("nic_bandwidth")) return true;
  if (kind == TierKind::FatTree || kind == TierKind::Dragonfly) return true;
  return size > node_size && (inner != nullptr || node_size == 1);
}

/// Rates of groups inside the tier, each combination once.
std::vector<GroupRate> read_group_rates(const Node& list, const LinkTier& tier) {
  std::vector<GroupRate> rates;
  for (const Node& node : list.items()) {
    GroupRate rate;
    rate.ranks = node.at("ranks").count(2, tier.size);
    rate.stride = node.at("stride").count(1, tier.size);
    rate.rate = node.at("rate").positive<Bandwidth>();
    if (const auto sends = node.find("sends")) {
      if (rate.ranks != 2) sends->fail("only pairs send", "with ranks: 2");
      rate.sends = sends->positive<Bandwidth>();
    }
    if (tier.size % (std::int64_t{1} * rate.ranks * rate.stride) != 0) {
      node.fail(fmt::format("{} ranks with stride {} do not divide the {} of the tier", rate.ranks,
                            rate.stride, tier.size));
    }
    for (const GroupRate& other : rates) {
      if (other.stride == rate.stride && other.ranks == rate.ranks) {
        node.fail("the rate of these groups is given twice");
      }
    }
    rates.push_back(rate);
  }
  return rates;
}

LinkTier read_tier(const Node& node, const LinkTier* inner, int node_size,
                   ProfileLibrary& library) {
  LinkTier tier;
  FieldLog log;
  tier.name = node.at("name").name();
  tier.kind = read_tier_kind(node.at("kind"));
  const Node size = node.at("size");
  tier.size = size.count(1, kMaxAccelerators);
  log.given("size");
  require_nested_sizes(size, tier, inner, node_size);
  ProvenanceMap curve_from;
  if (leaves_by_nic(node, tier.kind, tier.size, inner, node_size)) {
    tier.nics = read_nics(node, node_size, log);
    tier.bandwidth = tier.node_bandwidth() / static_cast<double>(node_size);
    const auto curve = read_fabric_curve(node, tier, library);
    tier.curve = curve.curve;
    curve_from["curve"] = curve.from;
  } else {
    if (inner != nullptr && inner->is_fabric()) {
      node.fail("a link that accelerators drive directly lies outside a network",
                "list the links first, then the tiers with network cards");
    }
    const TierRate rate = read_rate(node, node_size, log);
    tier.bandwidth = rate.bandwidth / static_cast<double>(rate.shared_by);
    if (const auto pair = node.find("pair_bandwidth")) {
      tier.pair_bandwidth = pair->positive<Bandwidth>();
      log.given("pair_bandwidth");
      if (*tier.pair_bandwidth > tier.bandwidth) {
        pair->fail("one pair cannot have more than all links of an accelerator together");
      }
    } else if (tier.kind == TierKind::Mesh) {
      node.fail("key 'pair_bandwidth' is missing", "a mesh gives a pair only its own links");
    }
    Fields(node, &log).take("group_rates", tier.group_rates, [&](const Node& rates) {
      return read_group_rates(rates, tier);
    });
    const auto curve = read_link_curve(node, tier, library);
    tier.curve = curve.curve;
    curve_from["curve"] = curve.from;
  }
  tier.provenance = log.provenance(node, curve_from);
  return tier;
}

std::vector<LinkTier> read_tiers(const Node& list, int node_size, ProfileLibrary& library) {
  std::vector<LinkTier> tiers;
  for (const Node& node : list.items()) {
    LinkTier tier = read_tier(node, tiers.empty() ? nullptr : &tiers.back(), node_size, library);
    for (const LinkTier& other : tiers) {
      if (other.name == tier.name) node.at("name").fail("two tiers have this name");
    }
    tiers.push_back(std::move(tier));
  }
  if (tiers.empty()) list.fail("at least one tier is needed");
  if (tiers.front().is_fabric()) tiers.insert(tiers.begin(), device_tier(library, list.where()));
  if (tiers.back().size < node_size) {
    list.items().back().at("size").fail(
        fmt::format("the widest tier holds {} accelerators, a node {}", tiers.back().size,
                    node_size),
        "the last tier spans the whole machine");
  }
  return tiers;
}

Host read_host(const Node& node, const Defaults& defaults) {
  Host host;
  host.memory = node.at("memory").positive<Bytes>();
  host.memory_bandwidth = node.at("memory_bandwidth").positive<Bandwidth>();
  host.to_device = node.at("to_device").positive<Bandwidth>();
  host.from_device = node.at("from_device").positive<Bandwidth>();
  host.optimizer_efficiency =
      number_or(node, "optimizer_efficiency", &defaults.host_optimizer_efficiency, 0.01, 1.0);
  return host;
}

/// The named attention kernel becomes the one of this machine.
void read_software(const Node& node, Cluster& cluster) {
  const Fields fields(node);
  fields.take("flat_parameters", cluster.software.flat_parameters, &Node::boolean);
  if (const auto set = node.find("implementation")) {
    const auto& sets = implementation_sets();
    cluster.software.implementation = set->text();
    if (!contains(sets, *cluster.software.implementation)) {
      set->fail(fmt::format("unknown set of implementations '{}'", set->text()),
                fmt::format("one of {}", fmt::join(sets, ", ")));
    }
  }
  fields.take("kernels", cluster.software.kernels, &Node::text);
  const auto name = node.find("attention_kernel");
  if (!name) return;
  KernelCurves& kernels = cluster.accelerator.kernels;
  const AttentionKernel* kernel = kernels.find_attention(name->text());
  if (kernel == nullptr || !kernel->backward) {
    std::vector<std::string> known;
    for (const AttentionKernel& k : kernels.attention) {
      if (k.backward) known.push_back(k.name);
    }
    name->fail(fmt::format("{} has no attention kernel '{}' that can train",
                           cluster.accelerator.name, name->text()),
               fmt::format("one of {}", fmt::join(known, ", ")));
  }
  cluster.software.attention_kernel = kernel->name;
  kernels.attention_forward = kernel->forward;
  kernels.attention_backward = kernel->backward;
}

Cluster read_cluster(const Node& root, ProfileLibrary& library) {
  require_schema(root, "plansearch/profile/v1");
  static_cast<void>(root.find("like"));  // open_profile has followed it
  Cluster cluster;
  FieldLog log;
  cluster.name = root.at("name").name();
  Fields(root).take("aliases", cluster.aliases, &Node::texts);
  Fields(root).take("description", cluster.description, &Node::text);
  const Node accelerator = root.at("accelerator");
  cluster.accelerator = accelerator.is_map()
                            ? read_accelerator(accelerator, library, 0)
                            : find_accelerator(accelerator.text(), library, accelerator.where(), 0);
  cluster.accelerators_per_node = root.at("accelerators_per_node").count(1, 1'000'000);
  log.given("accelerators_per_node");
  cluster.tiers = read_tiers(root.at("tiers"), cluster.accelerators_per_node, library);
  const Fields fields(root, &log);
  fields.take("price", cluster.price_usd_per_accelerator_hour,
              [](const Node& price) { return price.non_negative<UsdPerHour>().value; });
  fields.with("software", [&](const Node& software) { read_software(software, cluster); });
  if (const auto host = root.find("host")) {
    cluster.host = read_host(*host, library.defaults());
    for (const char* key : {"memory", "memory_bandwidth", "to_device", "from_device"}) {
      log.given(fmt::format("host.{}", key));
    }
  }
  fields.take("site", cluster.site, read_fitted_site);
  cluster.unmeasured_sigma = library.defaults().unmeasured_sigma;
  cluster.foreign_sigma = library.defaults().foreign_sigma;
  cluster.provenance = log.provenance(root, {});
  root.finish();
  return cluster;
}

std::vector<fs::path> to_vector(std::span<const fs::path> directories) {
  return {directories.begin(), directories.end()};
}

NamedFiles profile_files(std::span<const fs::path> directories) {
  return {"hardware profile", to_vector(directories), {".yaml"}, {}, {"defaults"}, "hw"};
}

/// The file and, where it is `like` another machine, what that one says besides. `names` gets those
/// of all machines it is like.
Document open_profile(const fs::path& path, const NamedFiles& kind, ProfileLibrary& library,
                      std::vector<std::string>& names) {
  Document own = library.open(path);
  if (!own.root().is_map()) return own;
  const auto like = own.root().find("like");
  if (!like) return own;
  if (names.size() > kMaxLikeDepth) like->fail("`like` refers back to itself");
  NamedFiles beside = kind;
  beside.base = own.directory();
  const fs::path other = resolve_file(like->text(), beside, like->where());
  const std::size_t place = names.size();
  names.emplace_back();
  const Document base = open_profile(other, kind, library, names);
  if (const auto name = base.root().find("name")) names[place] = name->text();
  return Document::made(profile_like(base.raw(), own.raw()), own.hash(), own.file());
}

}  // namespace

Cluster load_cluster(std::string_view name_or_path, std::span<const fs::path> directories,
                     std::span<const Override> overrides) {
  NamedFiles kind = profile_files(directories);
  kind.extensions = {".yaml", ".json"};
  const fs::path path = resolve_file(name_or_path, kind);
  ProfileLibrary library(to_vector(directories));
  std::vector<std::string> like;
  const Document document = overlaid(open_profile(path, kind, library, like), overrides);
  Cluster cluster = document.collect([&](const Node& root) { return read_cluster(root, library); });
  cluster.like = std::move(like);
  cluster.content_hash = library.hash();
  if (!overrides.empty()) {
    cluster.content_hash = combine_hashes(cluster.content_hash, document.hash());
  }
  return cluster;
}

Document open_cluster(std::string_view name_or_path, std::span<const fs::path> directories) {
  NamedFiles kind = profile_files(directories);
  kind.extensions = {".yaml", ".json"};
  ProfileLibrary library(to_vector(directories));
  std::vector<std::string> like;
  return open_profile(resolve_file(name_or_path, kind), kind, library, like);
}

Cluster parse_cluster(std::string_view text, const std::string& file_name,
                      std::span<const fs::path> directories) {
  ProfileLibrary library(to_vector(directories));
  const Document document = Document::parse(text, file_name, Syntax::Yaml);
  return document.collect([&](const Node& root) { return read_cluster(root, library); });
}

Accelerator load_accelerator(std::string_view name_or_path, std::span<const fs::path> directories) {
  ProfileLibrary library(to_vector(directories));
  return find_accelerator(name_or_path, library, {}, 0);
}

std::vector<NamedFile> list_clusters(std::span<const fs::path> directories) {
  return list_files(profile_files(directories));
}

}  // namespace plansearch::io
