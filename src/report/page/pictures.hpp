// SPDX-License-Identifier: Apache-2.0
// The one renderer of pictures: SVG of bars, curves, points and timelines. Every picture has its
// numbers as text as well.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/step/priced_program.hpp"

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

}  // namespace plansearch::page
