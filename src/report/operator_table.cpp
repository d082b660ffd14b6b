// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plansearch/report.hpp"
#include "report/plan_cells.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

/// Operators below this share of a micro-batch are one row.
constexpr double kShown = 0.005;

Cell time_cell(Seconds time) {
  return time > Seconds(0) ? Cell(time) : Cell("");
}

struct Rest {
  int operators = 0;
  Seconds total;
};

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
    if (share < kShown) {
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

}  // namespace plansearch
