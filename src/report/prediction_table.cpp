// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/units.hpp"
#include "plansearch/report.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_fields.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

/// Its parts that are not zero, and their share of `whole`.
template <typename Breakdown, typename Q>
std::string part_table(std::vector<TextColumn> columns, const Breakdown& breakdown, Q whole,
                       int width) {
  TextTable table(std::move(columns));
  for (const auto& [key, name, value] : parts_of(breakdown)) {
    if (value != Q(0)) table.add_row({name, value, share_text(value / whole)});
  }
  table.add_row({"total", breakdown.total(), share_text(breakdown.total() / whole)});
  return table.text(width) + "\n";
}

/// Less than any clock shows.
constexpr Seconds kNothing(0.5e-6);

/// How operators are cut that do not follow the rules by role.
std::string placement_table(const PlacementNames& placements, int columns) {
  TextTable table(
      {{"placed one by one", Align::Left, 1}, {"layers", Align::Left}, {"cut", Align::Left}});
  const auto add = [&](const PlacementEntry& entry, const std::string& what) {
    table.add_row({fmt::format("{}: {}", fmt::join(entry.blocks, ", "), what),
                   layers_text(entry.layers), cut_text(entry.cut, placements.factors)});
    for (const NamedSquare& square : entry.squares) {
      table.add_row({"", "", square_text(square, placements.factors)});
    }
    if (entry.ring) table.add_row({"", "", ring_text(*entry.ring, placements.factors)});
  };
  for (const PlacementEntry& entry : placements.operators) {
    add(entry, fmt::format("{}", fmt::join(entry.operators, ", ")));
  }
  for (const PlacementEntry& entry : placements.edges) add(entry, "handed on");
  for (const PieceEntry& entry : placements.regions) {
    table.add_row(
        {fmt::format("{}: {}", fmt::join(entry.blocks, ", "), fmt::join(entry.operators, ", ")),
         layers_text(entry.layers), pieces_text(entry)});
  }
  std::string factors;
  for (std::size_t f = 0; f < placements.factors.size(); ++f) {
    factors += fmt::format("{}t{} {}", f == 0 ? "" : ", ", f, placements.factors[f]);
  }
  return table.text(columns) +
         fmt::format("ranks of the factors of the tensor group, the innermost first: {}\n",
                     factors);
}

/// The moves of every pass, the step after it and its cost in memory.
std::string pass_table(const std::vector<PassReport>& passes, int columns) {
  TextTable table({{"pass", Align::Left},
                   {"moved"},
                   {"what", Align::Left, 1},
                   {"step after"},
                   {"gain"},
                   {"buffers"},
                   {"peak"}});
  for (const PassReport& pass : passes) {
    const Seconds gain = pass.before - pass.after;
    table.add_row({pass.name, fmt::format("{}", pass.moved),
                   pass.kept ? pass.moves : pass.moves + ", not kept: the step would grow",
                   pass.after,
                   gain > Seconds(0) ? fmt::format("{:.2f} %", 100.0 * (gain / pass.before)) : "-",
                   pass.slots > Bytes(0) ? "+" + to_text(pass.slots) : "-",
                   pass.peak > Bytes(0) ? "+" + to_text(pass.peak) : "-"});
  }
  return table.text(columns);
}

/// A plan beyond memory.
std::string excess_text(const SearchReport& report) {
  const NearMissReport& miss = report.misses.front();
  const bool on_device = miss.memory.total() > miss.limit;
  std::string text =
      on_device
          ? fmt::format("does not fit: needs {} of {}, short by {}\n", to_text(miss.memory.total()),
                        to_text(miss.limit), to_text(miss.excess()))
          : std::string("does not fit: its hosts have less memory than optimizer states need\n");
  return text;
}

/// Blocks on all devices, and the order that was found.
std::string found_order_text(const PlanReport& plan) {
  std::string text;
  if (!plan.plan.shared.empty()) {
    text = fmt::format("on the devices of all stages: {}\n", fmt::join(plan.plan.shared, ", "));
  }
  const FoundOrder& order = *plan.order;
  text += fmt::format("order: found, a window of {} a micro-batch (work of the busiest device {})",
                      to_text(order.window), to_text(order.bound));
  if (plan.plan.window && !plan.plan.window->empty()) {
    text += fmt::format(" under {}", fmt::join(*plan.plan.window, ", "));
  }
  return text + fmt::format("\nmicro-batches that stages keep: {}\n", fmt::join(order.kept, ", "));
}

/// Operators below this share of a micro-batch are one row.
constexpr double kShownOperators = 0.005;

Cell time_cell(Seconds time) {
  return time > Seconds(0) ? Cell(time) : Cell("");
}

/// The name of the row for what is too little to be shown.
std::string others_name(std::size_t count) {
  return fmt::format("{} other{}", count, count > 1 ? "s" : "");
}

/// Messages below this share of all of them are one row.
constexpr double kShownMessages = 0.01;

std::string name_of(const HiddenMessage& m) {
  return fmt::format("{}: {}{} {}", m.block, m.pass, m.repeated ? ", again" : "", m.what);
}

/// The longest ones of a step.
std::set<std::size_t> shown_of(const std::vector<Redistribution>& all) {
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
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

TextTable stage_table(const std::vector<StageReport>& stages) {
  TextTable table({{"stages", Align::Left},
                   {"layers"},
                   {"forward"},
                   {"backward"},
                   {"busy"},
                   {"waiting"},
                   {"to the next", Align::Left, 1},
                   {"memory"}});
  const auto alike = [](const StageReport& a, const StageReport& b) {
    return a.layers == b.layers && a.forward == b.forward && a.backward == b.backward &&
           a.edge_time == b.edge_time && a.edge_leaves_node == b.edge_leaves_node;
  };
  for (std::size_t first = 0; first < stages.size();) {
    std::size_t end = first + 1;
    while (end < stages.size() && alike(stages[first], stages[end])) ++end;
    const StageReport& s = stages[first];
    const auto [least, most] = std::minmax_element(
        stages.begin() + static_cast<std::ptrdiff_t>(first),
        stages.begin() + static_cast<std::ptrdiff_t>(end),
        [](const StageReport& a, const StageReport& b) { return a.memory < b.memory; });
    const Cell memory = to_text(least->memory) == to_text(most->memory)
                            ? Cell(most->memory)
                            : range_cell(least->memory, most->memory);
    const std::string name =
        end == first + 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, end - 1);
    const Cell edge = s.edge_time == Seconds(0)
                          ? Cell("")
                          : Cell(s.edge_time).with(s.edge_leaves_node ? ", other node" : "");
    table.add_row(
        {name, count_text(s.layers), s.forward, s.backward, s.busy, s.waiting, edge, memory});
    first = end;
  }
  return table;
}

TextTable communication_table(const std::vector<PricedCommunication>& lines) {
  TextTable table({{"communication", Align::Left},
                   {"kind", Align::Left},
                   {"axis", Align::Left, 2},
                   {"ranks"},
                   {"message"},
                   {"calls"},
                   {"each", Align::Right, 1},
                   {"exposed"}});
  for (const PricedCommunication& line : lines) {
    const Communication& c = line.communication;
    table.add_row({line.what, std::string(to_text(c.kind)), spoken_name(c.axes),
                   fmt::format("{}", c.group_size), line.bytes, count_text(line.count), line.time,
                   line.exposed < kNothing ? Cell("-") : line.exposed});
  }
  return table;
}

TextTable peak_table(const PeakReport& peak) {
  constexpr std::size_t kShown = 12;
  TextTable table({{"alive at the peak", Align::Left, 1}, {"tensors"}, {"bytes"}, {"share"}});
  const auto add = [&](const std::string& what, const std::string& count, Bytes bytes) {
    table.add_row({what, count, bytes, share_text(bytes / peak.allocated)});
  };
  Bytes others;
  for (std::size_t i = 0; i < peak.parts.size(); ++i) {
    const HeldPart& part = peak.parts[i];
    if (i < kShown) {
      const bool of_block = part.what.find(": ") != std::string::npos;
      add(part.what, of_block ? count_text(part.count) : std::string(), part.bytes);
    } else {
      others += part.bytes;
    }
  }
  if (peak.parts.size() > kShown) {
    add(fmt::format("{} others", peak.parts.size() - kShown), "", others);
  }
  return table;
}

std::string render_prediction(const SearchReport& report, Format format, int columns) {
  if (format != Format::Table || report.plans.empty()) return render_search(report, format);
  const PlanReport& p = report.plans.front();
  const Estimate& e = p.estimate;
  std::string text = render_search(report, format, columns) + "\n";
  text += part_table({{"step time", Align::Left}, {"time"}, {"share"}}, e.step, e.step.total(),
                     columns);
  text += part_table({{"peak memory", Align::Left}, {"bytes"}, {"of capacity"}}, e.memory,
                     report.question.memory_capacity, columns);
  if (p.stages.size() > 1) text += stage_table(p.stages).text(columns) + "\n";
  if (!p.peak.parts.empty()) text += peak_table(p.peak).text(columns) + "\n";
  text += fmt::format(
      "memory: {}, {} risk of running out; tensors {}, the allocator {}, nvidia-smi {}\n\n",
      to_text(p.memory_fit), risk_text(p), to_text(p.peak.allocated), to_text(p.peak.reserved),
      to_text(p.peak.process));
  if (e.host_memory > Bytes(0)) {
    text += fmt::format("host memory: {} on a node\n\n", to_text(e.host_memory));
  }
  if (p.order) text += found_order_text(p) + "\n";
  if (p.plan.placements) text += placement_table(*p.plan.placements, columns) + "\n";
  if (!p.communication.empty()) text += communication_table(p.communication).text(columns) + "\n";
  if (!p.passes.empty()) text += pass_table(p.passes, columns) + "\n";
  if (!report.misses.empty()) text += excess_text(report);
  for (const std::string& remedy : report.remedies) text += fmt::format("hint: {}\n", remedy);
  if (!report.misses.empty() || !report.remedies.empty()) text += "\n";
  for (const std::string& reason : p.why) text += fmt::format("why: {}\n", reason);
  text += fmt::format("model {} per GPU (MFU {}), hardware {} per GPU (HFU {})\n",
                      to_text(p.model_rate_per_gpu), share_text(p.mfu),
                      to_text(p.hardware_rate_per_gpu), share_text(p.hfu));
  return wrapped(text, columns);
}

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
  std::size_t others = 0;
  Seconds rest;
  for (const OperatorReport& o : operators) {
    const double share = o.copies * o.total() / all;
    if (share < kShownOperators) {
      ++others;
      rest += o.copies * o.total();
      continue;
    }
    table.add_row({fmt::format("{}: {}", o.block, o.name), count_text(o.copies),
                   time_cell(o.forward), time_cell(o.input_gradient), time_cell(o.weight_gradient),
                   time_cell(o.messages), share_text(share)});
  }
  if (others > 0) {
    table.add_row({others_name(others), "", "", "", "", "", share_text(rest / all)});
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
  std::size_t others = 0;
  Seconds rest_time;
  Seconds rest_exposed;
  for (const HiddenMessage& m : messages) {
    if (m.copies * m.time < kShownMessages * all) {
      ++others;
      rest_time += m.time;
      rest_exposed += m.exposed;
      continue;
    }
    table.add_row({name_of(m), std::string(to_text(m.kind)), m.time, time_cell(m.time - m.exposed),
                   time_cell(m.exposed), m.under});
  }
  if (others > 0) {
    table.add_row({others_name(others), "", rest_time,
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
    table.add_row({others_name(all.size() - shown.size()), "", "", "", "", "", "", rest});
  }
  return table.text(columns);
}

}  // namespace plansearch
