// SPDX-License-Identifier: Apache-2.0
// AxoNN: rows of its communication model, what the priced path derives beside it, its rates beside
// those of the shipped machines, and the memory of its networks. Its runs are rows with questions.
// Tensor3D: the volume of a grid by closed form. The best grids of tensor groups are rows with
// questions.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "cost/collective/collective_cost.hpp"
#include "evidence/reproduce/grid_model.hpp"
#include "evidence/reproduce/reproduce.hpp"
#include "io/tables/csv.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

/// Its networks in validation/published/networks.csv.
constexpr std::string_view kNetworks = "axonn-";
constexpr std::array kMachines{"perlmutter", "frontier"};
/// Bytes are divided by 2^30 and then by a rate in GB/s.
constexpr double kScriptUnit = 1e9 / 1073741824.0;

/// One line of validation/reproduce/axonn_grids.csv.
struct GridRow {
  std::string form;
  std::string machine;
  double between = 0.0;
  std::string name;  ///< of the network
  GptSizes sizes;
  int gpus = 1;
  std::int64_t batch = 1;
  int min_tensor = 1;
  std::size_t rank = 1;
  std::size_t grids = 0;
  TensorGrid grid;
  double seconds = 0.0;
  RingRates rates{};
};

std::vector<GridRow> read_grids(const StudyContext& context) {
  const auto table =
      io::CsvTable::read(context.data.directory() / "validation" / "reproduce" / "axonn_grids.csv");
  const auto networks = gpts_of(kNetworks, context.data);
  const std::map<std::string, GptSizes> sizes(networks.begin(), networks.end());
  std::map<std::string, RingRates> rates;
  for (const char* machine : kMachines) rates[machine] = ring_rates(machine, context.data);
  std::vector<GridRow> rows;
  for (const io::CsvRow& line : table.rows()) {
    const auto count = [&](const char* column) {
      return static_cast<int>(table.integer(line, column, 1).value());
    };
    rows.push_back({table.text(line, "form"),
                    table.text(line, "machine"),
                    table.number(line, "between_gb_s", 0.0).value(),
                    table.text(line, "model"),
                    sizes.at(table.text(line, "model")),
                    count("gpus"),
                    count("batch"),
                    count("min_tensor"),
                    static_cast<std::size_t>(count("rank")),
                    static_cast<std::size_t>(count("grids")),
                    {count("out"), count("in"), count("depth"), count("data")},
                    table.number(line, "seconds", 0.0).value()});
    GridRow& row = rows.back();
    row.rates = rates.at(row.machine);
    row.rates.between = row.between;
  }
  return rows;
}

double script_seconds(const GridRow& row, const TensorGrid& grid) {
  const BlockWeights weights = row.form == "script" ? kScriptWeights : block_weights(true, true);
  return kScriptUnit * grid_seconds(row.sizes, row.batch, grid, row.rates, weights);
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
  std::string form;
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
    group.form = row.form;
    ++group.rows;
    group.ranked += ranks_as_published(row, grids) ? 1 : 0;
    group.counted += grids.size() == row.grids ? 1 : 0;
    group.difference =
        std::max(group.difference, std::abs(script_seconds(row, row.grid) / row.seconds - 1.0));
  }
  for (const auto& [name, group] : groups) {
    const auto id = [&](const char* what) { return fmt::format("{} {}", what, group.form); };
    const auto rows = static_cast<double>(group.rows);
    figures.add(id("difference"), group.difference, {name});
    figures.add(id("ranked"), static_cast<double>(group.ranked), {name}, rows);
    figures.add(id("counted"), static_cast<double>(group.counted), {name}, rows);
  }
}

/// Derived messages on the ideal machines beside the closed form, over all grids of a question.
void add_derived(const GridRow& row, const StudyContext& context, Figures& figures) {
  const DerivedGrid derived(
      {row.sizes, ideal_machine(row.machine, context.data), row.gpus, row.batch}, context.data);
  double largest = 0.0;
  std::size_t compared = 0;
  for (const TensorGrid& grid : grids_of(row.gpus, row.batch, row.min_tensor)) {
    for (const Recompute recompute : {Recompute::None, Recompute::Full}) {
      const auto own = derived.seconds(grid, recompute);
      if (!own) continue;
      const BlockWeights weights =
          block_weights(recompute == Recompute::Full, derived.keeps_gathered());
      const double form = grid_seconds(row.sizes, row.batch, grid, row.rates, weights);
      largest = std::max(largest, std::abs(*own / form - 1.0));
      ++compared;
    }
  }
  figures.add("derived", largest,
              {row.name, fmt::format("{}", row.gpus), row.machine, fmt::format("{}", compared)});
}

/// Both machines, small and large; the other questions differ in sizes only.
void add_derived(const std::vector<GridRow>& published, const StudyContext& context,
                 Figures& figures) {
  for (const GridRow& row : published) {
    const bool small = row.machine == "perlmutter" && row.gpus == 64 && row.name == "5B";
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
    if (row.rank != 1 || row.name != "80B" || row.batch != 1024) continue;
    figures.add(
        "top " + row.form, script_seconds(row, row.grid),
        {fmt::format("{}", row.between), fmt::format("x{} y{} z{} data{}", row.grid.in,
                                                     row.grid.out, row.grid.depth, row.grid.data)},
        row.seconds);
  }
}

/// GB/s on the wire of a rank, messages of 1 GB, all groups active.
double ring_rate(const Cluster& cluster, CommunicationKind kind, int inner, int ranks) {
  constexpr double kMessage = 1e9;
  const CollectiveCost cost =
      collective_cost(cluster, kind, Bytes(kMessage), ProcessGroup(ranks, inner));
  return cost.wire_bytes.value() / cost.time.value() / 1e9;
}

void add_rates(const char* machine, const StudyContext& context, Figures& figures) {
  const Cluster cluster = context.data.cluster(machine);
  const RingRates published = ring_rates(machine, context.data);
  for (const auto& [group, rate] : published.inside) {
    const auto [inner, ranks] = group;
    const bool used = published.used.contains(group);
    for (const auto& [kind, name] : {std::pair{CommunicationKind::AllGather, "all-gather"},
                                     std::pair{CommunicationKind::AllReduce, "all-reduce"}}) {
      figures.add(used ? "rate used" : "rate", ring_rate(cluster, kind, inner, ranks),
                  {machine, name, fmt::format("{}", ranks), fmt::format("{}", inner)}, rate);
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

void add_sizes(const StudyContext& context, Figures& figures) {
  for (const auto& [name, sizes] : gpts_of(kNetworks, context.data)) {
    figures.add(fmt::format("parameters {}", name), gpt_parameters(sizes) / 1e9);
    if (name == "80B") figures.add("flops", gpt_flops(sizes, 1024));
  }
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

/// Smallest power of two of tensor ranks that hold the network, one sequence each.
std::optional<double> least_tensor(const GptSizes& sizes, const StudyContext& context) {
  constexpr int kMost = 1024;
  for (int ranks = 1; ranks <= kMost; ranks *= 2) {
    const PlanEvaluator evaluator(gpt_problem({.hardware = "perlmutter",
                                               .framework = "axonn",
                                               .gpus = ranks,
                                               .batch = ranks,
                                               .precision = "bf16"},
                                              sizes, context.data));
    for (const TensorGrid& grid : grids_of(ranks, ranks, ranks)) {
      PlanDegrees plan;
      plan.tensor_in = grid.in;
      plan.tensor_out = grid.out;
      plan.tensor_depth = grid.depth;
      plan.micro_batches = ranks / grid.depth;
      plan.recompute = Recompute::Full;
      const Evaluation evaluation = evaluator.evaluate(plan);
      const auto* estimate = std::get_if<Estimate>(&evaluation);
      if (estimate != nullptr && estimate->memory.total() <= evaluator.memory_limit()) {
        return static_cast<double>(ranks);
      }
    }
  }
  return std::nullopt;
}

void add_least_tensor(const StudyContext& context, Figures& figures) {
  double equal = 0.0;
  for (const auto& [name, sizes] : gpts_of(kNetworks, context.data)) {
    const auto own = least_tensor(sizes, context);
    const ReproducedRow& row = figures.add(fmt::format("least tensor {}", name), own);
    equal += own == row.published ? 1.0 : 0.0;
  }
  figures.add("least tensor", equal);
}

/// Elements a device sends per token and feature of one GPT block without recomputation, times the
/// devices: 2 [12 (in - 1) + 4 (out - 1)].
double volume(int out, int in) {
  return 2.0 * (12.0 * (in - 1) + 4.0 * (out - 1));
}

}  // namespace

void add_axonn(const StudyContext& context, Figures& figures) {
  add_priced(context, figures);
  add_least_tensor(context, figures);
  const std::vector<GridRow> published = read_grids(context);
  add_golden(published, figures);
  add_tops(published, figures);
  add_derived(published, context, figures);
  for (const char* machine : kMachines) {
    add_rates(machine, context, figures);
    add_between(machine, context, figures);
  }
  add_sizes(context, figures);
  add_peaks(context, figures);
}

void add_tensor3d(const StudyContext& context, Figures& figures) {
  add_priced(context, figures);
  for (const int ranks : {4, 8, 16, 32, 64}) {
    const auto grid = [&](const char* axis) {
      return static_cast<int>(figures.published(fmt::format("{} {}", ranks, axis)));
    };
    figures.add(fmt::format("{} volume", ranks),
                volume(grid("out"), grid("in")) / volume(ranks, 1));
  }
}

}  // namespace plansearch
