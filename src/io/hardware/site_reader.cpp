// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "evaluate/answer/site_population.hpp"
#include "io/document/fields.hpp"
#include "io/hardware/profile_parts.hpp"
#include "io/hardware/profile_reader.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch::io {
namespace {

constexpr int kMostRows = 1'000'000;
constexpr Choice<SiteKind> kKinds[] = {{"laboratory", SiteKind::Laboratory},
                                       {"vendor", SiteKind::Vendor}};
/// A step that takes more than this times its prediction, or less than one part in it, is not a
/// site.
constexpr double kMostFactor = 10.0;

double factor_in(const Node& value) {
  const double factor = value.number();
  if (!(factor >= 1.0 / kMostFactor && factor <= kMostFactor)) {
    value.fail(
        fmt::format("{} is not a factor from {} to {}", factor, 1.0 / kMostFactor, kMostFactor),
        "it is measured over predicted step time, about 1");
  }
  return factor;
}

double factor_of(const Node& node) {
  return factor_in(node.at("factor"));
}

/// Factors of parts of a step by their names; those that are not said do not differ.
std::vector<double> read_parts(const Node& node) {
  std::vector<double> factors(kStepParts, 1.0);
  for (std::size_t part = 0; part < kStepParts; ++part) {
    if (const auto value = node.find(step_part(part))) factors[part] = factor_in(*value);
  }
  return factors;
}

double deviation(const Node& value) {
  const double spread = value.number();
  if (!(spread >= 0.0 && spread <= std::log(kMostFactor))) {
    value.fail(fmt::format("{} is not a standard deviation of logarithms", spread),
               "it is 0.1 for about 10 %");
  }
  return spread;
}

MeasuredSite read_site(const Node& node) {
  MeasuredSite site;
  site.name = node.at("name").name();
  site.laboratory = node.at("laboratory").text();
  const Fields fields(node);
  fields.take("kind", site.kind, kKinds);
  fields.take("sources", site.sources, &Node::texts);
  fields.take("hardware", site.hardware, &Node::texts);
  site.rows = node.at("rows").count(1, kMostRows);
  site.factor = factor_of(node);
  site.spread = deviation(node.at("spread"));
  return site;
}

constexpr std::array kSwitches{Degree::Recompute, Degree::MicroBatch};
constexpr int kMostRuns = 1'000'000;

Degree switch_of(const Node& node) {
  const std::string key = node.text();
  const auto* found =
      std::ranges::find_if(kSwitches, [&](Degree degree) { return row_of(degree).key == key; });
  if (found == kSwitches.end()) {
    node.fail(fmt::format("{} is not a switch with a prior", key), "recompute and micro_batch are");
  }
  return *found;
}

constexpr double kDay = 86400.0;
constexpr int kMostGpus = 10'000'000;

double above_zero(const Node& node) {
  const double value = node.number();
  if (!(value > 0.0)) node.fail("must be above zero");
  return value;
}

ReliabilityRecord read_record(const Node& node) {
  ReliabilityRecord record;
  record.name = node.at("name").name();
  if (const auto machine = node.find("machine")) record.machine = machine->text();
  const int gpus = node.at("gpus").count(1, kMostGpus);
  record.gpu_time_s = gpus * above_zero(node.at("days")) * kDay;
  record.interruptions = above_zero(node.at("interruptions"));
  if (const auto restart = node.find("restart")) record.restart = restart->positive<Seconds>();
  record.source = node.at("source").text();
  return record;
}

template <typename Quantity>
Quantity sourced(const Node& node, std::string_view key) {
  (void)node.at("source").text();
  return node.at(key).positive<Quantity>();
}

std::vector<TierRule> read_tier_rules(const Node& list) {
  return transformed(list.items(), [](const Node& item) {
    TierRule rule;
    Fields(item).take("kind", rule.kind, read_tier_kind);
    Fields(item).take("min_bandwidth", rule.min_bandwidth, &Node::positive<Bandwidth>);
    rule.curve = item.at("curve").text();
    return rule;
  });
}

std::vector<KernelRule> read_kernel_rules(const Node& list) {
  return transformed(list.items(), [](const Node& item) {
    KernelRule rule;
    Fields(item).take("min_peak", rule.min_peak, &Node::positive<FlopRate>);
    rule.like = item.at("like").text();
    return rule;
  });
}

DataType data_type(const Node& node, const std::string& text) {
  const auto type = parse_data_type(text);
  if (!type) node.fail("unknown number format '" + text + "'");
  return *type;
}

}  // namespace

SiteTable read_sites(const std::filesystem::path& path) {
  const Document document = Document::read(path);
  const Node root = document.root();
  require_schema(root, "plansearch/sites/v1");
  SiteTable sites;
  for (const Node& node : root.at("sites").items()) {
    MeasuredSite site = read_site(node);
    const std::string name = canonical_name(site.name);
    const bool taken = name == kTypicalSite || name == kTunedSite || name == kVendorSite ||
                       name == kLaboratorySite ||
                       std::ranges::any_of(sites, [&](const MeasuredSite& other) {
                         return canonical_name(other.name) == name;
                       });
    if (taken) node.at("name").fail("two sites have this name");
    sites.push_back(std::move(site));
  }
  root.finish();
  return sites;
}

FittedSite read_fitted_site(const Node& node) {
  FittedSite site;
  const int rows = node.at("rows").count(3, kMostRows);
  site.effect.factor = factor_of(node);
  site.effect.spread = deviation(node.at("spread"));
  site.effect.scatter = deviation(node.at("scatter"));
  if (const auto parts = node.find("parts")) site.effect.parts = read_parts(*parts);
  site.effect.name = node.at("name").name();
  site.framework = node.at("framework").text();
  site.effect.basis = fmt::format("fitted to {} runs of your own", rows);
  return site;
}

SwitchPriors read_switch_priors(const std::filesystem::path& path) {
  const Document document = Document::read(path);
  const Node root = document.root();
  require_schema(root, "plansearch/switch-priors/v1");
  SwitchPriors priors;
  const Node assumed = root.at("as_assumed");
  priors.as_assumed = assumed.number();
  if (!(priors.as_assumed >= 0.0 && priors.as_assumed <= 1.0)) {
    assumed.fail(fmt::format("{} is not a share", priors.as_assumed), "it lies from 0 to 1");
  }
  for (const Node& node : root.at("priors").items()) {
    SwitchCount& count = priors.counts.emplace_back();
    count.degree = switch_of(node.at("switch"));
    count.framework = node.at("framework").text();
    count.source = node.at("source").text();
    count.year = node.at("year").count(2000, 2100);
    for (const Node::Entry& entry : node.at("runs").entries()) {
      const auto known = parse_value(count.degree, entry.key);
      if (!known) {
        entry.value.fail(fmt::format("{} {} is not {}", row_of(count.degree).key, entry.key,
                                     legal_text(count.degree)));
      }
      count.runs.emplace_back(*known, entry.value.count(1, kMostRuns));
    }
  }
  root.finish();
  return priors;
}

Reliability read_reliability(const std::filesystem::path& path) {
  const Document document = Document::read(path);
  const Node root = document.root();
  require_schema(root, "plansearch/reliability/v1");
  std::vector<ReliabilityRecord> records = transformed(root.at("records").items(), read_record);
  if (records.empty()) root.at("records").fail("at least one record");
  Reliability rest;
  rest.restart = sourced<Seconds>(root.at("restart"), "time");
  rest.repair = sourced<Seconds>(root.at("repair"), "time");
  rest.storage_of_site = root.at("storage").at("site").positive<Bandwidth>();
  rest.storage_per_node = sourced<Bandwidth>(root.at("storage"), "per_node");
  root.finish();
  return with_rate_of(std::move(records), rest);
}

TierKind read_tier_kind(const Node& node) {
  return node.choice<TierKind>(choices_of<TierKind, 6>());
}

Defaults read_defaults(const Node& root) {
  require_schema(root, "plansearch/defaults/v1");
  Defaults defaults;
  const Node accelerator = root.at("accelerator");
  defaults.kernels = read_kernel_rules(accelerator.at("kernels"));
  defaults.l2_cache = accelerator.at("l2_cache").positive<Bytes>();
  defaults.reduction_efficiency = number_or(accelerator, "reduction_efficiency", nullptr, 0.01, 1);
  defaults.optimizer_efficiency = number_or(accelerator, "optimizer_efficiency", nullptr, 0.01, 1);
  defaults.split_pass = accelerator.at("split_pass").non_negative<Seconds>();
  defaults.burst_warm_up = accelerator.at("burst_warm_up").positive<Seconds>();
  defaults.unaligned_rows = number_or(accelerator, "unaligned_rows", nullptr, 1.0, 100.0);
  defaults.host_optimizer_efficiency =
      number_or(root.at("host"), "optimizer_efficiency", nullptr, 0.01, 1);
  const Node concurrency = accelerator.at("concurrency");
  defaults.collective_multiprocessors =
      number_or(concurrency, "multiprocessors", nullptr, 0.0, 1e4);
  read_paths(concurrency.at("paths"), defaults.path_share, [](const std::string&) {});
  defaults.unmeasured_sigma = number_or(root, "unmeasured_sigma", nullptr, 0.0, 10.0);
  defaults.foreign_sigma = number_or(root, "foreign_sigma", nullptr, 0.0, 10.0);
  for (const Node::Entry& entry : accelerator.at("matmul_fallback").entries()) {
    std::vector<DataType>& order = defaults.matmul_fallback[data_type(entry.value, entry.key)];
    for (const Node& item : entry.value.items()) order.push_back(data_type(item, item.text()));
  }
  defaults.links = read_tier_rules(root.at("links"));
  defaults.fabrics = read_tier_rules(root.at("fabrics"));
  const Node device = root.at("device_link");
  defaults.device_bandwidth = device.at("bandwidth").positive<Bandwidth>();
  defaults.device_curve = device.at("curve").text();
  if (const auto why = root.find("why")) why->ignore();
  root.finish();
  return defaults;
}

}  // namespace plansearch::io
