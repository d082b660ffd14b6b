// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "base/units.hpp"
#include "plansearch/report.hpp"
#include "report/plan_cells.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

/// Messages below this share of all of them are one row.
constexpr double kShown = 0.01;

std::string name_of(const HiddenMessage& m) {
  return fmt::format("{}: {}{} {}", m.block, m.pass, m.repeated ? ", again" : "", m.what);
}

}  // namespace

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
    if (m.copies * m.time < kShown * all) {
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

}  // namespace plansearch
