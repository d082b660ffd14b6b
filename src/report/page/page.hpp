// SPDX-License-Identifier: Apache-2.0
// An answer as one page for a browser, and its pictures, which are files of their own as well.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evaluate/step/priced_program.hpp"
#include "plansearch/problem.hpp"
#include "plansearch/report.hpp"
#include "report/comparison.hpp"

namespace plansearch::page {

/// Text that cannot become markup: &, <, > and quotes are entities, control characters left out.
[[nodiscard]] std::string escaped(std::string_view text);

/// Shapes, 1000 wide; their colours are the custom properties of page.html.
struct Figure {
  double height = 0.0;
  std::string alt;      ///< the picture in words
  std::string content;  ///< empty: nothing to draw
};

/// The figures below each other as a file that needs nothing else.
[[nodiscard]] std::string svg_file(std::span<const Figure> figures);

inline constexpr double kLeft = 90.0;  ///< margin of names
inline constexpr int kColours = 12;    ///< of page.html

using NumberText = std::function<std::string(double)>;

struct BarPart {
  std::string name;
  double value = 0.0;
};
struct Bar {
  std::string name;
  std::vector<BarPart> parts;
};
struct BarPicture {
  std::string alt;
  std::vector<Bar> bars;
  NumberText text;
  std::optional<BarPart> limit{};  ///< a line across
};
/// Stacked bars with a legend of their parts.
[[nodiscard]] Figure bars(const BarPicture& picture);

struct CurvePoint {
  double x = 0.0;
  double y = 0.0;
  std::string name;  ///< shown where the pointer rests
};
struct Curve {
  std::string name;
  std::vector<CurvePoint> points{};
  bool marks = true;  ///< a dot on every point
  bool dotted = false;
  bool line = true;
};
enum class Scale { Linear, Logarithmic };
struct CurvePicture {
  std::string alt;
  std::vector<Curve> curves;
  std::string x_name, y_name;
  NumberText x_text, y_text;
  Scale scale = Scale::Linear;  ///< of both axes
};
/// Nothing where there are fewer than two points.
[[nodiscard]] Figure curves(const CurvePicture& picture);

/// The work of every stage over a program: forward, backward, weight gradients, reductions,
/// optimizer.
[[nodiscard]] Figure timeline(const PricedProgram& program, std::string_view alt);

/// Memory of stages over that time: of the fullest, the first and the last.
[[nodiscard]] Figure memory_curve(const PricedProgram& program, std::string_view alt);

/// page.html: the template of pages, with their style and script.
extern const std::string_view kPage;

struct PageContent {
  const SearchReport* report = nullptr;
  const LadderReport* ladder = nullptr;  ///< where sizes were searched; its chosen rung is `report`
  const PricedProgram* program = nullptr;          ///< of plan 1; null where nothing fits
  int micro_batches = 0;                           ///< of plan 1; the program may have fewer
  const Problem* problem = nullptr;                ///< of plan 1
  const SensitivityReport* sensitivity = nullptr;  ///< of plan 1, where the user asked for it
};

/// HTML of less than two megabytes that needs nothing else: the same bytes for the same answer.
[[nodiscard]] std::string search_page(const PageContent& content);

/// An answer of tables alone.
struct TablesPage {
  std::string title;
  std::string line;                                          ///< the question
  std::vector<std::pair<std::string, std::string>> facts{};  ///< a value, and what it is
  std::vector<std::pair<std::string, TextTable>> tables{};   ///< each under its title
  std::vector<std::string> lines{};
  std::vector<std::string> evidence{};
};
[[nodiscard]] std::string tables_page(const TablesPage& content);

struct PlotRow {
  std::string_view name;
  std::string_view needs;  ///< the kind of answer that has it
  Figure (*draw)(const PageContent& content);
};
[[nodiscard]] std::span<const PlotRow> plots();

/// Every axis with more than one rank: how many, how far apart, over how many nodes.
[[nodiscard]] TextTable group_table(const PlanDegrees& plan, const Problem& problem);

}  // namespace plansearch::page
