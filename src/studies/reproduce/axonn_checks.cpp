// SPDX-License-Identifier: Apache-2.0
// AxoNN's communication model: its rows, what the priced path derives beside it, and its rates
// beside those of the shipped machines.
#include "studies/reproduce/axonn.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cost/collective_cost.hpp"
#include "io/csv.hpp"
#include "plansearch/error.hpp"
#include "studies/reproduce/derived_grid.hpp"

namespace plansearch {
namespace {

using Rows = std::vector<ReproducedRow>;

constexpr const char* kScript =
    "axonn-ai/Megatron-AxoNN, branch gordon-bell-perlmutter, examples/comm_model.py";
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

void add_golden(const std::vector<GridRow>& published, Rows& rows) {
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
    const auto all = static_cast<double>(group.rows);
    rows.push_back({fmt::format("rows, {}: largest relative difference", name), "", 0.0,
                    group.difference, std::nullopt, 1e-8, kScript});
    rows.push_back({fmt::format("rows, {}: at their rank", name), "rows", all,
                    static_cast<double>(group.ranked), all, all, kScript});
    rows.push_back({fmt::format("rows, {}: as many grids", name), "rows", all,
                    static_cast<double>(group.counted), all, all, kScript});
  }
}

/// Derived messages on the ideal machines beside the closed form, over all grids of a question.
void add_derived(const GridRow& row, const StudyContext& context, Rows& rows) {
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
  rows.push_back(
      {fmt::format("derived over closed form, {} on {} GPUs, ideal {}: largest difference of {}",
                   row.gpt->name, row.gpus, row.machine, compared),
       "", 0.0, largest, std::nullopt, 1e-9, kScript});
}

/// Both machines, small and large; the other questions differ in sizes only.
void add_derived(const std::vector<GridRow>& published, const StudyContext& context, Rows& rows) {
  for (const GridRow& row : published) {
    const bool small = row.machine == "perlmutter" && row.gpus == 64 && row.gpt->name == "5B";
    const bool large = row.machine == "perlmutter" && row.gpus == 1024 && row.batch == 1024;
    const bool wide = row.machine == "frontier" && row.gpus == 512;
    const bool table = row.between == 80.0 || row.between == 40.0;
    if (row.form == "corrected" && table && row.rank == 1 && (small || large || wide)) {
      add_derived(row, context, rows);
    }
  }
}

void add_tops(const std::vector<GridRow>& published, Rows& rows) {
  for (const GridRow& row : published) {
    if (row.rank != 1 || row.gpt->name != "80B" || row.batch != 1024) continue;
    const double own = script_seconds(row, row.grid);
    rows.push_back(
        {fmt::format("80B on 1024 GPUs, {} form, {} GB/s: best grid x{} y{} z{} data{}", row.form,
                     row.between, row.grid.in, row.grid.out, row.grid.depth, row.grid.data),
         "s", row.seconds, own, row.seconds * 0.999, row.seconds * 1.001, kScript});
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
               Rows& rows) {
  const Cluster cluster = context.data.cluster(machine);
  for (const auto& [group, rate] : published.inside) {
    const auto [inner, ranks] = group;
    for (const auto& [kind, name] : {std::pair{CommunicationKind::AllGather, "all-gather"},
                                     std::pair{CommunicationKind::AllReduce, "all-reduce"}}) {
      rows.push_back({fmt::format("{}: {} of {} ranks, {} inner, over their rate", machine, name,
                                  ranks, inner),
                      "", 1.0, ring_rate(cluster, kind, inner, ranks) / rate, 0.75, 1.33, kScript});
    }
  }
}

/// Rings over nodes with all accelerators of each. Sources of one machine differ.
struct BetweenNodes {
  const char* machine;
  double low;   ///< the lowest published rate
  double high;  ///< the highest
  const char* source;
};

constexpr BetweenNodes kBetween[] = {
    {"perlmutter", 59.52, 80.0,
     "59.52: later variant of comm_model.py; 66.59: hpcgroup/plexus performance/comm_model.py; 80: "
     "comm_model.py"},
    {"frontier", 40.0, 109.98,
     "40: comm_model.py; 109.98: its later variant (another RCCL and plugin)"}};

void add_between(const BetweenNodes& row, const StudyContext& context, Rows& rows) {
  const Cluster cluster = context.data.cluster(row.machine);
  const int ranks = 4 * cluster.accelerators_per_node;
  const double own = ring_rate(cluster, CommunicationKind::AllGather, 1, ranks);
  rows.push_back(
      {fmt::format("{}: rings of all accelerators of 4 nodes, lowest published", row.machine),
       "GB/s", row.low, own, 0.75 * row.low, 1.33 * row.high, row.source});
  rows.push_back({fmt::format("{}: the same, highest published", row.machine), "GB/s", row.high,
                  own, std::nullopt, std::nullopt, row.source});
}

void add_sizes(Rows& rows) {
  for (const ZooGpt& gpt : gpt_zoo()) {
    const double own = gpt_parameters(gpt.sizes) / 1e9;
    rows.push_back({fmt::format("parameters of {}", gpt.name), "10^9", gpt.parameters, own,
                    gpt.parameters * 0.999, gpt.parameters * 1.001,
                    "sizes: axonn-ai/Megatron-AxoNN examples/launch_per_comm_model.py"});
  }
  constexpr double kFlops = 1.3202e18;
  rows.push_back({"FLOPs of a step, 80B, batch 1024", "", kFlops,
                  gpt_flops(zoo_gpt("80B").sizes, 1024), kFlops * 0.999, kFlops * 1.001,
                  "axonn-ai/Megatron-AxoNN megatron/training.py"});
}

/// Published rates as shares of the peak of the profiles.
struct PublishedRate {
  const char* machine;
  int devices;
  double pflops;
  double percent;
};

void add_peaks(const StudyContext& context, Rows& rows) {
  for (const PublishedRate& run : {PublishedRate{"perlmutter", 1024, 182.0, 56.97},
                                   {"perlmutter", 4096, 620.1, 48.5},
                                   {"frontier", 32768, 1381.0, 22.0},
                                   {"alps", 6144, 1423.0, 23.4}}) {
    const FlopRate peak =
        context.data.cluster(run.machine).accelerator.peak_of(DataType::Bf16).value();
    const double own = 100.0 * run.pflops * 1e15 / run.devices / peak.value();
    rows.push_back({fmt::format("{} PFLOP/s on {} of {} over the peak of the profile", run.pflops,
                                run.devices, run.machine),
                    "%", run.percent, own, run.percent - 0.2, run.percent + 0.2,
                    "arXiv 2502.08145, abstract"});
  }
}

}  // namespace

void add_axonn_checks(const StudyContext& context, Rows& rows) {
  const std::vector<GridRow> published = read_grids(context);
  add_golden(published, rows);
  add_tops(published, rows);
  add_derived(published, context, rows);
  add_rates("perlmutter", perlmutter_rates(), context, rows);
  add_rates("frontier", frontier_rates(), context, rows);
  for (const BetweenNodes& row : kBetween) add_between(row, context, rows);
  add_sizes(rows);
  add_peaks(context, rows);
}

}  // namespace plansearch
