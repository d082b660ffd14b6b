// SPDX-License-Identifier: Apache-2.0
#include "io/hardware/profile_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/names.hpp"
#include "io/document/fields.hpp"

namespace plansearch::io {
namespace {

constexpr int kMostRows = 1'000'000;
constexpr Choice<SiteKind> kKinds[] = {{"laboratory", SiteKind::Laboratory},
                                       {"vendor", SiteKind::Vendor}};
/// A step that takes more than this times its prediction, or less than one part in it, is not a
/// site.
constexpr double kMostFactor = 10.0;

double factor_of(const Node& node) {
  const Node value = node.at("factor");
  const double factor = value.number();
  if (!(factor >= 1.0 / kMostFactor && factor <= kMostFactor)) {
    value.fail(
        fmt::format("{} is not a factor from {} to {}", factor, 1.0 / kMostFactor, kMostFactor),
        "it is measured over predicted step time, about 1");
  }
  return factor;
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
  site.name = node.at("name").text();
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
                       std::any_of(sites.begin(), sites.end(), [&](const MeasuredSite& other) {
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
  site.effect.name = node.at("name").text();
  site.framework = node.at("framework").text();
  site.effect.basis = fmt::format("fitted to {} runs of your own", rows);
  return site;
}

}  // namespace plansearch::io
