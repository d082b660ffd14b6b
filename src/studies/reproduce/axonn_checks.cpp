// SPDX-License-Identifier: Apache-2.0
// AxoNN's communication model: its rows, what the priced path derives beside it, and its rates
// beside those of the shipped machines.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost/collective/collective_cost.hpp"
#include "io/csv.hpp"
#include "plansearch/error.hpp"
#include "studies/reproduce/derived_grid.hpp"
#include "studies/reproduce/reproduce.hpp"

namespace plansearch {
namespace {

/// Bytes are divided by 2^30 and then by a rate in GB/s.
constexpr double kScriptUnit = 1e9 / 1073741824.0;

/// One line of validation/reproduce/axonn_grids.csv.
struct GridRow {
  std::string form;
  std::string machine;
  double between = 0.0;
  const ZooGpt* gpt = nullptr;
  int gpus = 1;
  std::int64_t batch = 1;
  int min_tensor = 1;
  std::size_t rank = 1;
  std::size_t grids = 0;
  TensorGrid grid;
  double seconds = 0.0;
};

std::vector<GridRow> read_grids(const StudyContext& context) {
  const auto table =
      io::CsvTable::read(context.data.directory() / "validation" / "reproduce" / "axonn_grids.csv");
  std::vector<GridRow> rows;
  for (const io::CsvRow& line : table.rows()) {
    const auto count = [&](const char* column) {
      return static_cast<int>(table.integer(line, column, 1).value());
    };
    rows.push_back({table.text(line, "form"),
                    table.text(line, "machine"),
                    table.number(line, "between_gb_s", 0.0).value(),
                    &zoo_gpt(table.text(line, "model")),
                    count("gpus"),
                    count("batch"),
                    count("min_tensor"),
                    static_cast<std::size_t>(count("rank")),
                    static_cast<std::size_t>(count("grids")),
                    {count("out"), count("in"), count("depth"), count("data")},
                    table.number(line, "seconds", 0.0).value()});
  }
  return rows;
}

RingRates rates_of(const GridRow& row) {
  RingRates rates = row.machine == "perlmutter" ? perlmutter_rates() : frontier_rates();
  rates.between = row.between;
  return rates;
}

double script_seconds(const GridRow& row, const TensorGrid& grid) {
  const BlockWeights weights = row.form == "script" ? kScriptWeights : block_weights(true, true);
  return kScriptUnit * grid_seconds(row.gpt->sizes, row.batch, grid, rates_of(row), weights);
}

/// Where a grid ranks among all of its question, the equal ones before it.
bool ranks_as_published(const GridRow& row, const std::vector<TensorGrid>& grids) {
  const double own = script_seconds(row, row.grid);
  constexpr double kEqual = 1e-9;
  std::size_t before = 0;
  std::size_t equal = 0;
  for (const TensorGrid& grid : grids) {
    const double other = script_seconds(row, grid);
    if (std::abs(other - own) <= kEqual * own) {
      ++equal;
    } else if (other < own) {
      ++before;
    }
  }
  return row.rank > before && row.rank <= before + equal;
}

/// Rows of one form of the model on one machine.
struct GridGroup {
  std::size_t rows = 0;
  std::size_t ranked = 0;
  std::size_t counted = 0;
  double difference = 0.0;
};

void add_golden(const std::vector<GridRow>& published, Figures& figures) {
  std::map<std::string, GridGroup> groups;
  for (const GridRow& row : published) {
    const auto grids = grids_of(row.gpus, row.batch, row.min_tensor);
    GridGroup& group = groups[fmt::format("{} form, {}, {} GB/s between nodes", row.form,
                                          row.machine, row.between)];
    ++group.rows;
    group.ranked += ranks_as_published(row, grids) ? 1 : 0;
    group.counted += grids.size() == row.grids ? 1 : 0;
    group.difference =
        std::max(group.difference, std::abs(script_seconds(row, row.grid) / row.seconds - 1.0));
  }
  for (const auto& [name, group] : groups) {
    figures.add("difference", group.difference, {name});
    for (const auto& [id, rows] : {std::pair{"ranked", group.ranked}, {"counted", group.counted}}) {
      ReproducedRow& row = figures.add(id, static_cast<double>(rows), {name});
      row.published = row.low = row.high = static_cast<double>(group.rows);
    }
  }
}

/// Derived messages on the ideal machines beside the closed form, over all grids of a question.
void add_derived(const GridRow& row, const StudyContext& context, Figures& figures) {
  const DerivedGrid derived(
      {row.gpt->sizes, ideal_machine(row.machine, context.data), row.gpus, row.batch},
      context.data);
  double largest = 0.0;
  std::size_t compared = 0;
  for (const TensorGrid& grid : grids_of(row.gpus, row.batch, row.min_tensor)) {
    for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
      const auto own = derived.seconds(grid, recompute);
      if (!own) continue;
      const BlockWeights weights =
          block_weights(recompute == Recompute::Full, derived.keeps_gathered());
      const double form = grid_seconds(row.gpt->sizes, row.batch, grid, rates_of(row), weights);
      largest = std::max(largest, std::abs(*own / form - 1.0));
      ++compared;
    }
  }
  figures.add("derived", largest,
              {std::string(row.gpt->name), fmt::format("{}", row.gpus), row.machine,
               fmt::format("{}", compared)});
}

/// Both machines, small and large; the other questions differ in sizes only.
void add_derived(const std::vector<GridRow>& published, const StudyContext& context,
                 Figures& figures) {
  for (const GridRow& row : published) {
    const bool small = row.machine == "perlmutter" && row.gpus == 64 && row.gpt->name == "5B";
    const bool large = row.machine == "perlmutter" && row.gpus == 1024 && row.batch == 1024;
    const bool wide = row.machine == "frontier" && row.gpus == 512;
    const bool table = row.between == 80.0 || row.between == 40.0;
    if (row.form == "corrected" && table && row.rank == 1 && (small || large || wide)) {
      add_derived(row, context, figures);
    }
  }
}

void add_tops(const std::vector<GridRow>& published, Figures& figures) {
  for (const GridRow& row : published) {
    if (row.rank != 1 || row.gpt->name != "80B" || row.batch != 1024) continue;
    ReproducedRow& top = figures.add("top", script_seconds(row, row.grid),
                                     {row.form, fmt::format("{}", row.between),
                                      fmt::format("x{} y{} z{} data{}", row.grid.in, row.grid.out,
                                                  row.grid.depth, row.grid.data)});
    top.published = row.seconds;
    top.low = row.seconds * 0.999;
    top.high = row.seconds * 1.001;
  }
}

/// GB/s on the wire of a rank, messages of 1 GB, all groups active.
double ring_rate(const Cluster& cluster, CommunicationKind kind, int inner, int ranks) {
  constexpr double kMessage = 1e9;
  const CollectiveCost cost =
      collective_cost(cluster, kind, Bytes(kMessage), ProcessGroup(ranks, inner));
  return cost.wire_bytes.value() / cost.time.value() / 1e9;
}

void add_rates(const char* machine, const RingRates& published, const StudyContext& context,
               Figures& figures) {
  const Cluster cluster = context.data.cluster(machine);
  for (const auto& [group, rate] : published.inside) {
    const auto [inner, ranks] = group;
    for (const auto& [kind, name] : {std::pair{CommunicationKind::AllGather, "all-gather"},
                                     std::pair{CommunicationKind::AllReduce, "all-reduce"}}) {
      figures.add("rate", ring_rate(cluster, kind, inner, ranks) / rate,
                  {machine, name, fmt::format("{}", ranks), fmt::format("{}", inner)});
    }
  }
}

/// Rings over nodes with all accelerators of each. Sources of one machine differ.
void add_between(const std::string& machine, const StudyContext& context, Figures& figures) {
  const Cluster cluster = context.data.cluster(machine);
  const int ranks = 4 * cluster.accelerators_per_node;
  const double own = ring_rate(cluster, CommunicationKind::AllGather, 1, ranks);
  figures.add(machine + " lowest", own);
  figures.add(machine + " highest", own);
}

void add_sizes(Figures& figures) {
  for (const ZooGpt& gpt : gpt_zoo()) {
    figures.add(fmt::format("parameters {}", gpt.name), gpt_parameters(gpt.sizes) / 1e9);
  }
  figures.add("flops", gpt_flops(zoo_gpt("80B").sizes, 1024));
}

/// Published rates as shares of the peak of the profiles.
void add_peaks(const StudyContext& context, Figures& figures) {
  for (const auto& [machine, devices] :
       {std::pair{"perlmutter", 1024}, {"perlmutter", 4096}, {"frontier", 32768}, {"alps", 6144}}) {
    const FlopRate peak = context.data.cluster(machine).accelerator.peak_of(DataType::Bf16).value();
    const std::string run = fmt::format("{} {}", machine, devices);
    const double pflops = figures.published("pflops " + run);
    figures.add("peak " + run, 100.0 * pflops * 1e15 / devices / peak.value(),
                {fmt::format("{}", pflops)});
  }
}

}  // namespace

void add_axonn_checks(const StudyContext& context, Figures& figures) {
  const std::vector<GridRow> published = read_grids(context);
  add_golden(published, figures);
  add_tops(published, figures);
  add_derived(published, context, figures);
  add_rates("perlmutter", perlmutter_rates(), context, figures);
  add_rates("frontier", frontier_rates(), context, figures);
  for (const char* machine : {"perlmutter", "frontier"}) add_between(machine, context, figures);
  add_sizes(figures);
  add_peaks(context, figures);
}

}  // namespace plansearch
