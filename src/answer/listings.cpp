// SPDX-License-Identifier: Apache-2.0
#include "answer/show.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "base/hash.hpp"
#include "base/ranges.hpp"
#include "exporters/export_plan.hpp"
#include "io/document/file.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/setting_table.hpp"
#include "plansearch/space.hpp"
#include "plansearch/transformer_builder.hpp"
#include "report/columns.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

using Cells = std::vector<std::string>;

struct Listing {
  std::vector<TextColumn> columns;
  std::vector<std::string> keys;  ///< of JSON and CSV, by column
  std::vector<Cells> rows;
  std::vector<Cells> (*read)(const ShippedData& data) = nullptr;  ///< rows that come from files
};

/// Those one would type; the others are how tables of measurements call the machine.
std::string aliases_text(std::vector<std::string> aliases) {
  std::erase_if(aliases,
                [](const std::string& alias) { return alias.find(' ') != std::string::npos; });
  return fmt::format("{}", fmt::join(aliases, " "));
}

std::vector<Cells> hardware_rows(const ShippedData& data) {
  return transformed<Cells>(data.clusters(), [&](const ShippedFile& file) {
    const Cluster cluster = data.cluster(file.path.string());
    return Cells{file.name,
                 cluster.accelerator.name,
                 to_text(cluster.accelerator.memory),
                 fmt::format("{}", cluster.accelerators_per_node),
                 fmt::format("{}", cluster.accelerators()),
                 aliases_text(file.aliases)};
  });
}

Listing list_hardware() {
  return {{{"hardware", Align::Left},
           {"accelerator", Align::Left},
           {"memory"},
           {"per node"},
           {"in all"},
           {"aliases", Align::Left}},
          {"name", "accelerator", "memory", "per_node", "accelerators", "aliases"},
          {},
          hardware_rows};
}

std::vector<Cells> model_rows(const ShippedData& data) {
  return transformed<Cells>(data.models(), [&](const ShippedFile& file) {
    const ModelDescription model = data.model(file.path.string()).description;
    return Cells{file.name,
                 fmt::format("{}", parameter_count(build_network(model))),
                 fmt::format("{}", model.layers),
                 fmt::format("{}", model.hidden),
                 fmt::format("{}", model.attention.heads),
                 fmt::format("{}", model.training.seq_len),
                 fmt::format("{}", model.training.global_batch),
                 aliases_text(file.aliases)};
  });
}

Listing list_models() {
  return {{{"model", Align::Left},
           {"parameters"},
           {"layers"},
           {"hidden"},
           {"heads"},
           {"sequence"},
           {"batch"},
           {"aliases", Align::Left}},
          {"name", "parameters", "layers", "hidden", "heads", "seq_len", "batch", "aliases"},
          {},
          model_rows};
}

std::vector<Cells> framework_rows(const ShippedData& data) {
  return transformed<Cells>(data.frameworks(), [&](const ShippedFile& file) {
    const std::string validation = data.framework(file.path.string()).validation;
    return Cells{file.name, validation.empty() ? "nothing: unvalidated" : validation,
                 aliases_text(file.aliases)};
  });
}

Listing list_frameworks() {
  return {{{"framework", Align::Left}, {"measured", Align::Left}, {"aliases", Align::Left}},
          {"name", "validation", "aliases"},
          {},
          framework_rows};
}

std::string chunks_text(const ChunkRange& chunks) {
  if (!chunks.most) return fmt::format("{} or more", chunks.fewest);
  if (chunks.fewest == *chunks.most) return fmt::format("{}", chunks.fewest);
  return fmt::format("{} to {}", chunks.fewest, *chunks.most);
}

Listing list_schedules() {
  Listing listing{{{"schedule", Align::Left},
                   {"chunks per stage", Align::Left},
                   {"placement", Align::Left, 1},
                   {"backward", Align::Left},
                   {"needs", Align::Left},
                   {"order", Align::Left},
                   {"aliases", Align::Left, 2}},
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

std::string effect_text(const SettingRow& row) {
  static constexpr std::array<std::string_view, 3> kWords{"price", "room", "summary"};
  return std::string(kWords.at(static_cast<std::size_t>(row.effect)));
}

/// The table of settings; an empty cell: it has no such key or column.
Listing list_settings() {
  Listing listing{{{"flag", Align::Left},
                   {"value", Align::Left},
                   {"plan file", Align::Left},
                   {"column of runs", Align::Left},
                   {"changes", Align::Left},
                   {"what it is", Align::Left}},
                  {"flag", "value", "key", "column", "changes", "help"},
                  {}};
  for (const SettingRow& row : setting_table()) {
    const bool written = row.effect != SettingEffect::Summary;
    listing.rows.push_back({flag_of(row), std::string(row.type),
                            std::string(written ? row.key : ""), std::string(row.column),
                            effect_text(row), std::string(row.help)});
  }
  return listing;
}

/// The plans that targets can express, one line each; neutral values only where a cell is 1, 0,
/// none or off.
Listing list_exporters() {
  using exporters::Setting;
  const std::vector<Setting> shown{exporters::setting_of(Degree::Pipeline),
                                   exporters::setting_of(Degree::Chunks),
                                   exporters::setting_of(Degree::TensorOut),
                                   exporters::setting_of(Degree::Context),
                                   exporters::setting_of(Degree::ContextKind),
                                   exporters::setting_of(Degree::Expert),
                                   exporters::setting_of(Degree::ExpertTensor),
                                   exporters::setting_of(Degree::Zero),
                                   exporters::setting_of(Degree::Recompute),
                                   exporters::setting_of(Degree::Schedule),
                                   Setting::Layers};
  Listing listing{{{"exporter", Align::Left}}, {"name"}, {}};
  for (const Setting setting : shown) {
    listing.columns.push_back({exporters::name_of(setting), Align::Left});
    listing.keys.push_back(exporters::name_of(setting));
  }
  listing.columns.push_back({"writes", Align::Left, 1});
  listing.keys.emplace_back("writes");
  listing.keys.emplace_back("checked");
  listing.columns.push_back({"keys as in", Align::Left, 2});
  const exporters::Targets targets(shipped_data().directory());
  for (const exporters::Exporter* found : targets.all()) {
    const exporters::Exporter& exporter = *found;
    std::vector<std::string> row{exporter.name};
    for (const Setting setting : shown) row.push_back(capability_text(exporter, setting));
    row.emplace_back(exporter.title);
    row.emplace_back(exporter.checked);
    listing.rows.push_back(std::move(row));
  }
  return listing;
}

Listing list_spaces() {
  Listing listing{
      {{"space", Align::Left}, {"what it holds", Align::Left}}, {"name", "summary"}, {}};
  for (const NamedSpace& space : named_spaces()) {
    listing.rows.push_back({std::string(space.name), std::string(space.summary)});
  }
  return listing;
}

/// "tp 4, pp 8"
std::string degrees_text(const PinnedDegrees& degrees) {
  std::vector<std::string> words;
  for (const DegreeRow& row : degree_table()) {
    const auto value = degrees.get(row.degree);
    if (!value) continue;
    words.push_back(
        fmt::format("{} {}", key_of(row.degree, degrees), value_text(row.degree, *value)));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

Listing list_recipes(const ShippedData& data) {
  Listing listing{{{"recipe", Align::Left},
                   {"model", Align::Left},
                   {"hardware", Align::Left},
                   {"GPUs"},
                   {"degrees", Align::Left},
                   {"date", Align::Left},
                   {"source", Align::Left, 1}},
                  {"name", "model", "hardware", "gpus", "degrees", "date", "source"},
                  {}};
  for (const Recipe& recipe : data.recipes()) {
    const ProblemRequest& question = recipe.question;
    listing.rows.push_back({recipe.name, question.model, question.hardware,
                            fmt::format("{}", question.gpus.value_or(0)),
                            degrees_text(question.degrees), recipe.date, recipe.source});
  }
  return listing;
}

struct ListingRow {
  std::string_view name;
  Listing (*list)();
};

constexpr std::array kListings{
    ListingRow{"hw", list_hardware},
    ListingRow{"models", list_models},
    ListingRow{"frameworks", list_frameworks},
    ListingRow{"schedules", list_schedules},
    ListingRow{"spaces", list_spaces},
    ListingRow{"exporters", list_exporters},
    ListingRow{"settings", list_settings},
    ListingRow{"recipes", [] { return list_recipes(shipped_data()); }},
    ListingRow{"index", nullptr},  // the rows that come from files, as one file: listings.json
};

/// Hash of the names and bytes of all files that rows come from; empty where one cannot be read.
std::string digest_of(const std::filesystem::path& directory) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const char* folder : {"hardware_profiles", "models", "frameworks"}) {
    std::error_code error;
    for (fs::recursive_directory_iterator
             entry(directory / folder, fs::directory_options::follow_directory_symlink, error),
         end;
         !error && entry != end; entry.increment(error)) {
      if (entry->is_regular_file(error)) files.push_back(entry->path());
    }
    if (error) return {};
  }
  std::ranges::sort(files);
  std::uint64_t digest = 0;
  try {
    for (const fs::path& file : files) {
      digest = combine_hashes(digest, content_hash(file.lexically_relative(directory).string()));
      digest = combine_hashes(digest, content_hash(io::read_file(file)));
    }
  } catch (const InputError&) {
    return {};
  }
  return hash_text(digest);
}

std::string index_text(const ShippedData& data) {
  nlohmann::ordered_json index{{"digest", digest_of(data.directory())}};
  for (const ListingRow& row : kListings) {
    const auto read = row.list != nullptr ? row.list().read : nullptr;
    if (read != nullptr) index[std::string(row.name)] = read(data);
  }
  return index.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// Rows as a build has written them beside the data or the program; none once a file has changed.
std::vector<Cells> indexed_rows(const ShippedData& data, std::string_view listing) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  for (const std::filesystem::path& folder : {data.directory(), program}) {
    const std::filesystem::path file = folder / "listings.json";
    if (!std::filesystem::is_regular_file(file, error)) continue;
    try {
      const auto index = nlohmann::json::parse(io::read_file(file));
      const std::string digest = index.at("digest");
      if (!digest.empty() && digest == digest_of(data.directory())) return index.at(listing);
    } catch (const InputError&) {  // the files themselves say it all
    } catch (const nlohmann::json::exception&) {
    }
  }
  return {};
}

}  // namespace

std::vector<std::string> listing_names() {
  return transformed<std::string>(kListings, &ListingRow::name);
}

std::string list_shipped(std::string_view what, Format format, int columns) {
  const auto row = std::ranges::find(kListings, what, &ListingRow::name);
  PLANSEARCH_CHECK(row != kListings.end());
  if (row->list == nullptr) return index_text(shipped_data());
  Listing listing = row->list();
  if (listing.read != nullptr) {
    const ShippedData data = shipped_data();
    listing.rows = indexed_rows(data, what);
    const auto whole = [&](const Cells& row) { return row.size() == listing.keys.size(); };
    if (listing.rows.empty() || !std::ranges::all_of(listing.rows, whole)) {
      listing.rows = listing.read(data);
    }
  }
  auto items = nlohmann::ordered_json::array();
  TextTable table(listing.columns);
  for (const auto& cells : listing.rows) {
    auto& item = items.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i) item[listing.keys[i]] = cells[i];
    table.add_row({cells.begin(), cells.end()});
  }
  return render_answer({std::move(items)}, format, [&] { return table.text(columns); });
}

}  // namespace plansearch
