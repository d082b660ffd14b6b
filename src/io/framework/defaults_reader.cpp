// SPDX-License-Identifier: Apache-2.0

#include "io/document/fields.hpp"

namespace plansearch::io {
namespace {

std::vector<TierRule> read_tier_rules(const Node& list) {
  std::vector<TierRule> rules;
  for (const Node& item : list.items()) {
    TierRule rule;
    Fields(item).take("kind", rule.kind, read_tier_kind);
    Fields(item).take("min_bandwidth", rule.min_bandwidth, &Node::positive<Bandwidth>);
    rule.curve = item.at("curve").text();
    rules.push_back(std::move(rule));
  }
  return rules;
}

std::vector<KernelRule> read_kernel_rules(const Node& list) {
  std::vector<KernelRule> rules;
  for (const Node& item : list.items()) {
    KernelRule rule;
    Fields(item).take("min_peak", rule.min_peak, &Node::positive<FlopRate>);
    rule.like = item.at("like").text();
    rules.push_back(std::move(rule));
  }
  return rules;
}

DataType data_type(const Node& node, const std::string& text) {
  const auto type = parse_data_type(text);
  if (!type) node.fail("unknown number format '" + text + "'");
  return *type;
}

}  // namespace

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
