// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/units.hpp"
#include "plansearch/report.hpp"
#include "report/plan_cells.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

/// Operators below this share of a micro-batch are one row.
constexpr double kShownOperators = 0.005;

Cell time_cell(Seconds time) {
  return time > Seconds(0) ? Cell(time) : Cell("");
}

struct Rest {
  int operators = 0;
  Seconds total;
};

/// Messages below this share of all of them are one row.
constexpr double kShownMessages = 0.01;

std::string name_of(const HiddenMessage& m) {
  return fmt::format("{}: {}{} {}", m.block, m.pass, m.repeated ? ", again" : "", m.what);
}

/// The longest ones of a step.
std::set<std::size_t> shown_of(const std::vector<Redistribution>& all) {
  std::vector<std::size_t> order(all.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return all[a].in_step() > all[b].in_step(); });
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

std::string operator_table(const std::vector<OperatorReport>& operators, int columns) {
  TextTable table({{"operator", Align::Left},
                   {"copies", Align::Right, 1},
                   {"forward"},
                   {"input gradient", Align::Right, 2},
                   {"weight gradient", Align::Right, 3},
                   {"messages"},
                   {"share"}});
  Seconds all;
  for (const OperatorReport& o : operators) all += o.copies * o.total();
  Rest rest;
  for (const OperatorReport& o : operators) {
    const double share = o.copies * o.total() / all;
    if (share < kShownOperators) {
      ++rest.operators;
      rest.total += o.copies * o.total();
      continue;
    }
    table.add_row({fmt::format("{}: {}", o.block, o.name), count_text(o.copies),
                   time_cell(o.forward), time_cell(o.input_gradient), time_cell(o.weight_gradient),
                   time_cell(o.messages), share_text(share)});
  }
  if (rest.operators > 0) {
    table.add_row({fmt::format("{} other{}", rest.operators, rest.operators > 1 ? "s" : ""), "", "",
                   "", "", "", share_text(rest.total / all)});
  }
  return table.text(columns);
}

std::string hidden_table(const std::vector<HiddenMessage>& messages, int columns) {
  TextTable table({{"message", Align::Left},
                   {"kind", Align::Left, 2},
                   {"time"},
                   {"hidden"},
                   {"exposed"},
                   {"under", Align::Left, 1}});
  Seconds all;
  for (const HiddenMessage& m : messages) all += m.copies * m.time;
  int rest = 0;
  Seconds rest_time;
  Seconds rest_exposed;
  for (const HiddenMessage& m : messages) {
    if (m.copies * m.time < kShownMessages * all) {
      ++rest;
      rest_time += m.time;
      rest_exposed += m.exposed;
      continue;
    }
    const Seconds hidden = std::max(m.time - m.exposed, Seconds(0));
    table.add_row({name_of(m), std::string(to_text(m.kind)), m.time,
                   hidden > Seconds(0) ? Cell(hidden) : "",
                   m.exposed > Seconds(0) ? Cell(m.exposed) : "", m.under});
  }
  if (rest > 0) {
    table.add_row({fmt::format("{} other{}", rest, rest > 1 ? "s" : ""), "", rest_time,
                   std::max(rest_time - rest_exposed, Seconds(0)), rest_exposed, ""});
  }
  return table.text(columns);
}

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
