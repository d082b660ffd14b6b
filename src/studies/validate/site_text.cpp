// SPDX-License-Identifier: Apache-2.0
#include "studies/validate/site_text.hpp"

#include <fmt/format.h>

#include "studies/validate/summary_text.hpp"

namespace plansearch {
namespace {

std::string bias_cell(double bias) {
  return fmt::format("{:+.1f}", 100.0 * bias);
}

std::vector<std::string> view_cells(const SiteErrors& at) {
  if (at.errors.rows == 0) return {"-", "-", "-"};
  const double inside = static_cast<double>(at.within) / static_cast<double>(at.errors.rows);
  return {percent_cell(at.errors.mean), bias_cell(at.errors.bias),
          fmt::format("{:.0f}", 100.0 * inside)};
}

std::vector<std::string> alike_cells(const AlikeSummary& alike) {
  if (alike.groups == 0) return {"-", "-", "-"};
  return {percent_cell(alike.mean), bias_cell(alike.bias),
          fmt::format("{:.0f}", 100.0 * alike.within)};
}

using Alike = AlikeSummary SiteErrors::*;

/// A line of means over groups of rows; none where they are one group, or none.
void add_alike(Section& section, const GroupPair& pair, const char* name, Alike which) {
  section.add(pair, name, [&](const GroupSummary& group) -> std::vector<std::string> {
    const auto groups = (group.at_sites[1].*which).groups;
    if (groups < 2) return {};
    std::vector<std::string> cells{fmt::format("{}", groups)};
    for (const SiteErrors& at : group.at_sites) append(cells, alike_cells(at.*which));
    return cells;
  });
}

std::string sites_line(const GroupSummary& all, const char* rows) {
  const AlikeSummary& left_out = all.at_sites[2].by_site;
  if (left_out.groups < 2) return {};
  return fmt::format(
      "{}: left out, {} sites of {} rows or more: median of their mean errors {:.1f} %, bias "
      "{:+.1f} %, {:.0f} % inside p10 - p90, {:.0f} % of sites below 40 %\n",
      rows, left_out.groups, kFewestSiteRows, 100.0 * left_out.median, 100.0 * left_out.bias,
      100.0 * left_out.within, 100.0 * left_out.rarely_inside);
}

}  // namespace

std::string site_errors_text(const RunReport& report, const std::vector<GroupPair>& pairs,
                             int columns) {
  Section section(
      report, "STEP TIME BY SITE, error in %",
      {"rows", "own", "bias", "inside", "typical", "bias", "inside", "left out", "bias", "inside"});
  for (const GroupPair& pair : pairs) {
    section.add(pair, [](const GroupSummary& group) -> std::vector<std::string> {
      if (group.at_sites[1].errors.rows == 0) return {};
      std::vector<std::string> cells{fmt::format("{}", group.at_sites[1].errors.rows)};
      for (const SiteErrors& at : group.at_sites) append(cells, view_cells(at));
      return cells;
    });
    if (pair.all->by != "all") continue;
    add_alike(section, pair, "all, sources weighed alike", &SiteErrors::by_source);
    add_alike(section, pair, "all, sites of 5 rows or more weighed alike", &SiteErrors::by_site);
  }
  std::string text = section.text(columns);
  for (std::size_t set = 0; set < report.sets.size(); ++set) {
    text += sites_line(report.sets[set].groups.front(), set == 0 ? "all rows" : "without suspects");
  }
  return text;
}

std::string site_legend() {
  return "  own                the factor of the row's own measured site (in sample); rows of no\n"
         "                     measured site are not in it\n"
         "  typical            the factor of a typical site, which answers have by default\n"
         "  left out           the same, computed without the sites of the row's laboratory; "
         "other\n"
         "                     constants that were fitted to its runs stay as they are\n";
}

}  // namespace plansearch
