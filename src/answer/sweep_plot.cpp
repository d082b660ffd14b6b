// SPDX-License-Identifier: Apache-2.0
#include "answer/sweep_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/names.hpp"
#include "base/units.hpp"
#include "plansearch/error.hpp"
#include "report/page/page.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// More curves than this cannot be distinguished.
constexpr std::size_t kMostCurves = 8;

/// "model=gpt2-xl gpus=32" as keys and values.
using AskedValues = std::map<std::string, std::string, std::less<>>;

struct Point {
  AskedValues asked;
  double seconds = 0.0;
};

AskedValues asked_in(const std::string& text) {
  AskedValues asked;
  for (const std::string& word : words_of(text, " ")) {
    const auto equals = word.find('=');
    if (equals != std::string::npos) asked[word.substr(0, equals)] = word.substr(equals + 1);
  }
  return asked;
}

std::vector<Point> points_of(const AnswerTable& rows) {
  std::vector<Point> points;
  for (const auto& [number, line] : rows) {
    const Json row = Json::parse(line);
    const auto step = row.find("step_time_s");
    if (step == row.end() || !step->is_number()) continue;
    points.push_back({asked_in(row.at("asked").get<std::string>()), step->get<double>()});
  }
  return points;
}

std::optional<double> number_in(const std::string& text) {
  const auto number = parse_as<double>(text);
  return number && *number > 0.0 ? number : std::nullopt;
}

/// Keys that differ between points, and whether all their values are numbers.
std::map<std::string, bool> varied_keys(const std::vector<Point>& points) {
  std::map<std::string, std::set<std::string>> values;
  for (const Point& point : points)
    for (const auto& [key, value] : point.asked) values[key].insert(value);
  std::map<std::string, bool> varied;
  for (const auto& [key, texts] : values) {
    if (texts.size() < 2) continue;
    varied[key] = std::ranges::all_of(
        texts, [](const std::string& text) { return number_in(text).has_value(); });
  }
  return varied;
}

/// The key on the axis: sizes before degrees.
std::string axis_of(const std::map<std::string, bool>& varied) {
  for (const char* key : {"gpus", "nodes", "seq_len", "batch"}) {
    const auto found = varied.find(key);
    if (found != varied.end() && found->second) return key;
  }
  for (const auto& [key, numbers] : varied)
    if (numbers) return key;
  return {};
}

std::string name_of(const AskedValues& asked, const std::map<std::string, bool>& varied,
                    const std::string& axis) {
  std::vector<std::string> words;
  for (const auto& [key, numbers] : varied) {
    const auto found = asked.find(key);
    if (key == axis || found == asked.end()) continue;
    words.push_back(numbers ? fmt::format("{} {}", key, found->second) : found->second);
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

page::Figure figure_of(const AnswerTable& rows) {
  const std::vector<Point> points = points_of(rows);
  const auto varied = varied_keys(points);
  const std::string axis = axis_of(varied);
  if (axis.empty()) return {};
  std::vector<page::Curve> curves;
  std::set<std::string> left_out;
  for (const Point& point : points) {
    const auto x = point.asked.find(axis);
    if (x == point.asked.end()) continue;
    const std::string name = name_of(point.asked, varied, axis);
    auto curve = std::ranges::find(curves, name, &page::Curve::name);
    if (curve == curves.end() && curves.size() == kMostCurves) {
      left_out.insert(name);
      continue;
    }
    if (curve == curves.end()) curve = curves.insert(curves.end(), page::Curve{name, {}});
    curve->points.push_back({number_in(x->second).value(), point.seconds,
                             fmt::format("{} {}{}{}: {}", axis, x->second, name.empty() ? "" : ", ",
                                         name, to_text(Seconds(point.seconds)))});
  }
  for (page::Curve& curve : curves)
    std::ranges::sort(curve.points, [](const auto& a, const auto& b) { return a.x < b.x; });
  page::CurvePicture picture;
  picture.alt =
      fmt::format("Step time over {}, both axes logarithmic.{}", axis,
                  left_out.empty() ? std::string()
                                   : fmt::format(" {} more curves are left out.", left_out.size()));
  picture.curves = std::move(curves);
  picture.x_name = axis;
  picture.y_name = "step time";
  picture.x_text = [](double value) { return fmt::format("{:.6g}", value); };
  picture.y_text = [](double value) { return to_text(Seconds(value)); };
  picture.scale = page::Scale::Logarithmic;
  return page::curves(picture);
}

}  // namespace

void check_sweep_plots(const std::vector<std::string>& plots) {
  for (const std::string& plot : plots) {
    if (!plot.starts_with("sweep="))
      throw InputError({}, fmt::format("--plot {}: a sweep has one picture", plot),
                       "--plot sweep=FILE.svg");
  }
}

void write_sweep_plots(const std::vector<std::string>& plots, const AnswerTable& rows) {
  const page::Figure figure = figure_of(rows);
  for (const std::string& plot : plots) {
    if (figure.content.empty())
      throw InputError({}, fmt::format("--plot {}: this answer has nothing to draw", plot),
                       "it takes two questions with plans that differ in a number, such as gpus");
    io::write_file(plot.substr(plot.find('=') + 1), page::svg_file({&figure, 1}));
  }
}

}  // namespace plansearch
