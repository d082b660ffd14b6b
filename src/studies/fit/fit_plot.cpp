// SPDX-License-Identifier: Apache-2.0
#include "studies/fit/fit_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"

namespace plansearch {
namespace {

constexpr double kWidth = 340.0;
constexpr double kHeight = 240.0;
constexpr double kMargin = 50.0;

/// One panel: where values lie on the page, on logarithmic scales.
class Panel {
 public:
  Panel(double left, double top, std::pair<double, double> x, std::pair<double, double> y)
      : left_(left), top_(top), x_(x), y_(y) {}

  [[nodiscard]] double across(double log) const {
    return left_ + kMargin + (kWidth - kMargin) * share(log, x_);
  }
  [[nodiscard]] double down(double log) const {
    return top_ + kHeight - kMargin - (kHeight - kMargin - 20.0) * share(log, y_);
  }
  [[nodiscard]] std::string line(double x1, double y1, double x2, double y2,
                                 const char* style) const {
    return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n",
                       across(x1), down(y1), across(x2), down(y2), style);
  }
  [[nodiscard]] std::string point(double x, double y) const {
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\" fill=\"#1f6fb2\"/>\n",
                       across(x), down(y));
  }
  [[nodiscard]] std::string text(double log_x, double log_y, double shift, const std::string& what,
                                 const char* anchor) const {
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n",
                       across(log_x), down(log_y) + shift, anchor, what);
  }
  /// Ends of both axes with their values.
  [[nodiscard]] std::string frame(const std::string& low_y, const std::string& high_y) const {
    constexpr const char* kAxis = "stroke=\"#888\"";
    return line(x_.first, y_.first, x_.second, y_.first, kAxis) +
           line(x_.first, y_.first, x_.first, y_.second, kAxis) +
           text(x_.first, y_.first, 16.0, to_text(Seconds(std::exp(x_.first))), "middle") +
           text(x_.second, y_.first, 16.0, to_text(Seconds(std::exp(x_.second))), "end") +
           text(x_.first, y_.first, -2.0, low_y, "end") +
           text(x_.first, y_.second, 4.0, high_y, "end");
  }

 private:
  static double share(double log, std::pair<double, double> range) {
    return (std::clamp(log, range.first, range.second) - range.first) /
           std::max(range.second - range.first, 1e-9);
  }

  double left_;
  double top_;
  std::pair<double, double> x_;
  std::pair<double, double> y_;
};

std::string group_plot(const KernelGroupFit& group, double top) {
  constexpr double kWidest = 0.7;  // of residuals: a factor of two
  std::pair<double, double> range{group.seen.front().measured, group.seen.front().measured};
  for (const SeenRow& row : group.seen) {
    range.first = std::min({range.first, row.measured, row.predicted});
    range.second = std::max({range.second, row.measured, row.predicted});
  }
  const Panel curve(0.0, top, range, range);
  const Panel left_over(kWidth + kMargin, top, range, {-kWidest, kWidest});
  std::string text = curve.frame(to_text(Seconds(std::exp(range.first))),
                                 to_text(Seconds(std::exp(range.second)))) +
                     left_over.frame("x0.5", "x2");
  text += curve.text(range.first, range.second, -8.0,
                     group.part + ": measured (up) over predicted (right)", "start");
  text += left_over.text(range.first, kWidest, -8.0, "measured / predicted", "start");
  text += curve.line(range.first, range.first, range.second, range.second, "stroke=\"#c33\"");
  text += left_over.line(range.first, 0.0, range.second, 0.0, "stroke=\"#c33\"");
  if (group.held_out) {
    for (const double at : {group.held_out->residual.p10, group.held_out->residual.p90}) {
      text += left_over.line(range.first, at, range.second, at,
                             "stroke=\"#c33\" stroke-dasharray=\"4 3\"");
    }
  }
  for (const SeenRow& row : group.seen) {
    text += curve.point(row.predicted, row.measured);
    text += left_over.point(row.predicted, row.measured - row.predicted);
  }
  return text;
}

}  // namespace

std::string fit_plot(const KernelFit& fit) {
  std::string panels;
  double top = 20.0;
  for (const KernelGroupFit& group : fit.groups) {
    if (group.seen.empty()) continue;
    panels += group_plot(group, top);
    top += kHeight + 20.0;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"white\"/>\n{}</svg>\n",
      2.0 * (kWidth + kMargin) + 20.0, top, panels);
}

}  // namespace plansearch
