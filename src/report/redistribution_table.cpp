// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "plansearch/report.hpp"
#include "report/plan_cells.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

/// The longest ones of a step.
std::set<std::size_t> shown_of(const std::vector<Redistribution>& all) {
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return all[a].in_step() > all[b].in_step();
  });
  order.resize(std::min(order.size(), kShownRedistributions));
  return {order.begin(), order.end()};
}

/// A name stands in the first row of its path.
void add_rows(const Redistribution& r, TextTable& table) {
  std::string name = fmt::format("{} to {}, {}: {}", r.from, r.to, r.pass, r.what);
  if (r.alike > 1) name += fmt::format(" (and {} more alike)", r.alike - 1);
  for (const RedistributionHop& hop : r.path) {
    table.add_row({std::exchange(name, ""), std::string(to_text(hop.kind)), hop.axes,
                   fmt::format("{}", hop.ranks), hop.links, hop.bytes, hop.time,
                   hop.count * hop.time});
  }
}

}  // namespace

std::string redistribution_table(const std::vector<Redistribution>& all, int columns) {
  TextTable table({{"from, to", Align::Left},
                   {"step", Align::Left},
                   {"axis", Align::Left, 3},
                   {"ranks", Align::Right, 2},
                   {"links", Align::Left},
                   {"message", Align::Right, 1},
                   {"each"},
                   {"in a step"}});
  const std::set<std::size_t> shown = shown_of(all);
  Seconds rest;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (shown.contains(i)) {
      add_rows(all[i], table);
    } else {
      rest += all[i].in_step();
    }
  }
  if (shown.size() < all.size()) {
    const std::size_t left = all.size() - shown.size();
    table.add_row(
        {fmt::format("{} other{}", left, left > 1 ? "s" : ""), "", "", "", "", "", "", rest});
  }
  return table.text(columns);
}

}  // namespace plansearch
