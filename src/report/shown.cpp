// SPDX-License-Identifier: Apache-2.0
#include "report/shown.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/columns.hpp"
#include "report/text_table.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// The place of a source among those that were named, from 1.
std::size_t number_of(std::vector<std::string>& sources, const std::string& source) {
  const auto found = std::ranges::find(sources, source);
  if (found != sources.end()) return static_cast<std::size_t>(found - sources.begin()) + 1;
  sources.push_back(source);
  return sources.size();
}

std::string evidence_of(const ShownRow& row, std::vector<std::string>& sources) {
  if (!row.from) return {};
  std::string text(to_text(row.from->evidence));
  if (!row.from->source.empty()) text += fmt::format(" [{}]", number_of(sources, row.from->source));
  return text;
}

std::string section_text(const ShownSection& section, std::vector<std::string>& sources,
                         int columns) {
  TextTable table({{section.title, Align::Left},
                   {"value", Align::Left},
                   {"evidence", Align::Left},
                   {"meaning", Align::Left, 1}});
  for (const ShownRow& row : section.rows) {
    table.add_row({row.field, row.text, evidence_of(row, sources), row.meaning});
  }
  return "\n" + table.text(columns);
}

std::string table_text(const Shown& shown, int columns) {
  std::string text = fmt::format("{} {}{}{}\n", shown.kind, shown.name,
                                 shown.description.empty() ? "" : ": ", shown.description);
  if (!shown.aliases.empty()) text += fmt::format("also: {}\n", fmt::join(shown.aliases, ", "));
  std::vector<std::string> sources;
  for (const ShownSection& section : shown.sections) {
    if (!section.rows.empty()) text += section_text(section, sources, columns);
  }
  if (!sources.empty()) text += "\nsources\n";
  for (std::size_t i = 0; i < sources.size(); ++i) {
    text += fmt::format("[{}] {}\n", i + 1, sources[i]);
  }
  return wrapped(text, columns);
}

Json row_json(const std::string& section, const ShownRow& row) {
  Json json{{"section", section}, {"field", row.field}};
  json["value"] = row.number ? Json(*row.number) : Json(row.text);
  json["unit"] = row.number ? Json(row.unit) : Json(nullptr);
  json["evidence"] = row.from ? Json(to_text(row.from->evidence)) : Json(nullptr);
  json["source"] = row.from ? or_null(row.from->source) : Json(nullptr);
  json["meaning"] = or_null(row.meaning);
  return json;
}

}  // namespace

std::string render_shown(const Shown& shown, Format format, int columns) {
  Json rows = Json::array();
  for (const ShownSection& section : shown.sections) {
    for (const ShownRow& row : section.rows) rows.push_back(row_json(section.title, row));
  }
  return render_answer({{{"schema", "plansearch/show/v1"},
                         {"kind", shown.kind},
                         {"name", shown.name},
                         {"description", shown.description},
                         {"aliases", shown.aliases},
                         {"rows", std::move(rows)}}},
                       format, [&] { return table_text(shown, columns); });
}

}  // namespace plansearch
