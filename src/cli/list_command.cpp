// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/exit_code.hpp"
#include "cli/output.hpp"
#include "plansearch/shipped_data.hpp"
#include "plansearch/transformer_builder.hpp"
#include "report/text_table.hpp"
#include "schedule/table.hpp"

namespace plansearch::cli {
namespace {

struct Listing {
  std::vector<TextColumn> columns;
  std::vector<std::string> keys;  ///< of JSON and CSV, by column
  std::vector<std::vector<std::string>> rows;
};

/// Those one would type; the others are how tables of measurements call the machine.
std::string aliases_text(std::vector<std::string> aliases) {
  std::erase_if(aliases,
                [](const std::string& alias) { return alias.find(' ') != std::string::npos; });
  return fmt::format("{}", fmt::join(aliases, " "));
}

Listing list_hardware(const ShippedData& data) {
  Listing listing{{{"hardware", Align::Left},
                   {"accelerator", Align::Left},
                   {"memory"},
                   {"per node"},
                   {"in all"},
                   {"aliases", Align::Left}},
                  {"name", "accelerator", "memory", "per_node", "accelerators", "aliases"},
                  {}};
  for (const ShippedFile& file : data.clusters()) {
    const Cluster cluster = data.cluster(file.path.string());
    listing.rows.push_back({file.name, cluster.accelerator.name,
                            to_text(cluster.accelerator.memory),
                            fmt::format("{}", cluster.accelerators_per_node),
                            fmt::format("{}", cluster.accelerators()), aliases_text(file.aliases)});
  }
  return listing;
}

Listing list_models(const ShippedData& data) {
  Listing listing{
      {{"model", Align::Left},
       {"parameters"},
       {"layers"},
       {"hidden"},
       {"heads"},
       {"sequence"},
       {"batch"},
       {"aliases", Align::Left}},
      {"name", "parameters", "layers", "hidden", "heads", "seq_len", "batch", "aliases"},
      {}};
  for (const ShippedFile& file : data.models()) {
    const ModelDescription model = data.model(file.path.string()).description;
    listing.rows.push_back(
        {file.name, fmt::format("{}", parameter_count(build_network(model))),
         fmt::format("{}", model.layers), fmt::format("{}", model.hidden),
         fmt::format("{}", model.attention.heads), fmt::format("{}", model.training.seq_len),
         fmt::format("{}", model.training.global_batch), aliases_text(file.aliases)});
  }
  return listing;
}

Listing list_frameworks(const ShippedData& data) {
  Listing listing{{{"framework", Align::Left}, {"aliases", Align::Left}}, {"name", "aliases"}, {}};
  for (const ShippedFile& file : data.frameworks()) {
    listing.rows.push_back({file.name, aliases_text(file.aliases)});
  }
  return listing;
}

std::string chunks_text(const ChunkRange& chunks) {
  if (!chunks.most) return fmt::format("{} or more", chunks.fewest);
  if (chunks.fewest == *chunks.most) return fmt::format("{}", chunks.fewest);
  return fmt::format("{} to {}", chunks.fewest, *chunks.most);
}

Listing list_schedules() {
  Listing listing{{{"schedule", Align::Left},
                   {"chunks per stage", Align::Left},
                   {"placement", Align::Left},
                   {"backward", Align::Left},
                   {"needs", Align::Left},
                   {"order", Align::Left},
                   {"aliases", Align::Left}},
                  {"name", "chunks", "placement", "backward", "needs", "order", "aliases"},
                  {}};
  for (const ScheduleId id : all_schedules()) {
    const Schedule& row = schedule_row(id);
    listing.rows.push_back(
        {std::string(row.name), chunks_text(row.chunks), std::string(row.placement->name),
         splits_backward(id) ? "split" : "whole", std::string(row.needs), std::string(row.summary),
         fmt::format("{}", fmt::join(row.aliases, " "))});
  }
  return listing;
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted;
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return fmt::format("\"{}\"", quoted);
}

std::string csv(const Listing& listing) {
  std::string text = fmt::format("{}\n", fmt::join(listing.keys, ","));
  for (const auto& row : listing.rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row) cells.push_back(csv_cell(cell));
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

std::string json(const Listing& listing, Format format) {
  nlohmann::ordered_json items = nlohmann::ordered_json::array();
  for (const auto& row : listing.rows) {
    nlohmann::ordered_json item;
    for (std::size_t i = 0; i < row.size(); ++i) item[listing.keys[i]] = row[i];
    items.push_back(std::move(item));
  }
  if (format == Format::Json) return items.dump(2) + "\n";
  std::string text;
  for (const auto& item : items) text += item.dump() + "\n";
  return text;
}

std::string render(const Listing& listing, Format format) {
  if (format == Format::Csv) return csv(listing);
  if (format != Format::Table) return json(listing, format);
  TextTable table(listing.columns);
  for (const auto& row : listing.rows) table.add_row(row);
  return table.text();
}

Listing listing_of(const std::string& what) {
  if (what == "schedules") return list_schedules();
  const ShippedData data = shipped_data();
  if (what == "hw") return list_hardware(data);
  return what == "models" ? list_models(data) : list_frameworks(data);
}

}  // namespace

int run_list(const Options& options) {
  const Output output(options);
  output.write(render(listing_of(options.argument), format_of(options)));
  return kExitOk;
}

}  // namespace plansearch::cli
