// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "io/hardware/profile_parts.hpp"
#include "io/hardware/profile_reader.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch::io {
namespace {

constexpr std::array kSwitches{Degree::Recompute, Degree::MicroBatch};
constexpr int kMostRuns = 1'000'000;

Degree switch_of(const Node& node) {
  const std::string key = node.text();
  const auto* found = std::find_if(kSwitches.begin(), kSwitches.end(),
                                   [&](Degree degree) { return row_of(degree).key == key; });
  if (found == kSwitches.end()) {
    node.fail(fmt::format("{} is not a switch with a prior", key), "recompute and micro_batch are");
  }
  return *found;
}

}  // namespace

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

}  // namespace plansearch::io
