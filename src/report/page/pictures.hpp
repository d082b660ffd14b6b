// SPDX-License-Identifier: Apache-2.0
// Pictures of answers as SVG inside a page: every one has its numbers as text as well.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/step/priced_program.hpp"

namespace plansearch::page {

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
  std::string alt;  ///< what it shows, in words
  std::vector<Bar> bars;
  NumberText text;
  std::optional<BarPart> limit{};  ///< a line across
};
/// Stacked bars with a legend of their parts.
[[nodiscard]] std::string bars(const BarPicture& picture);

struct CurvePoint {
  double x = 0.0;
  double y = 0.0;
  std::string name;  ///< shown where the pointer rests
};
struct Curve {
  std::string name;
  std::vector<CurvePoint> points;
  bool marks = true;    ///< a dot on every point
  bool dotted = false;  ///< the line
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
[[nodiscard]] std::string curves(const CurvePicture& picture);

/// What every stage does over the time of a program: forward, backward, weight gradients, the rest.
[[nodiscard]] std::string timeline(const PricedProgram& program, std::string_view alt);

/// What stages hold over that time: the one that holds most, and the first and last.
[[nodiscard]] std::string memory_curve(const PricedProgram& program, std::string_view alt);

}  // namespace plansearch::page
