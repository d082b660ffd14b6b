// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/units.hpp"
#include "report/page/page.hpp"

namespace plansearch::page {
namespace {

constexpr double kWidth = 1000.0;
constexpr double kRow = 26.0;
constexpr int kMostStages = 16;

std::string colour(std::size_t part) {
  return fmt::format("var(--c{})", part % kColours);
}

std::string text_at(double x, double y, std::string_view text, std::string_view more = {}) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, more, escaped(text));
}

std::string rectangle(double x, double y, double width, double height, std::string_view fill,
                      std::string_view title) {
  return fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\">{}</rect>\n",
      x, y, width, height, fill,
      title.empty() ? "" : fmt::format("<title>{}</title>", escaped(title)));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view more) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, more);
}

/// Names with their colours, in lines below a picture; moves `y` behind them.
std::string legend(const std::vector<std::string>& names, double& y) {
  std::string text;
  double x = kLeft;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double width = 26.0 + 7.5 * static_cast<double>(names[i].size());
    if (x + width > kWidth && x > kLeft) {
      x = kLeft;
      y += 20.0;
    }
    text += rectangle(x, y, 12.0, 12.0, colour(i), {});
    text += text_at(x + 17.0, y + 11.0, names[i]);
    x += width;
  }
  y += 24.0;
  return text;
}

double total(const Bar& bar) {
  double sum = 0.0;
  for (const BarPart& part : bar.parts) sum += part.value;
  return sum;
}

/// Names of all parts, in the order in which bars have them.
std::vector<std::string> part_names(const std::vector<Bar>& bars) {
  std::vector<std::string> names;
  for (const Bar& bar : bars) {
    for (const BarPart& part : bar.parts) {
      if (part.value <= 0.0) continue;
      if (std::ranges::find(names, part.name) == names.end()) names.push_back(part.name);
    }
  }
  return names;
}

/// Maps values to the width or height of a picture.
class PlotAxis {
 public:
  PlotAxis(Scale scale, double low, double high, double from, double to)
      : scale_(scale), low_(map(low)), high_(map(high)), from_(from), to_(to) {}
  [[nodiscard]] double at(double value) const {
    if (high_ == low_) return from_;
    return from_ + (to_ - from_) * (map(value) - low_) / (high_ - low_);
  }

 private:
  [[nodiscard]] double map(double value) const {
    return scale_ == Scale::Logarithmic ? std::log(value) : value;
  }
  Scale scale_;
  double low_, high_, from_, to_;
};

std::string path_of(const Curve& curve, const PlotAxis& x, const PlotAxis& y,
                    std::string_view stroke) {
  std::string points;
  for (const CurvePoint& point : curve.points) {
    points += fmt::format("{:.1f},{:.1f} ", x.at(point.x), y.at(point.y));
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"{}/>\n",
                     points, stroke, curve.dotted ? " stroke-dasharray=\"3 5\"" : "");
}

std::vector<int> shown_stages(int stages) {
  std::vector<int> shown;
  const int count = std::min(stages, kMostStages);
  for (int i = 0; i < count; ++i) shown.push_back(count == 1 ? 0 : i * (stages - 1) / (count - 1));
  return shown;
}

struct Work {
  const char* name;
  bool (*is)(const Instruction& instruction);
};
constexpr Work kWork[] = {
    {"forward",
     [](const Instruction& i) { return i.opcode == Opcode::Run && i.key.phase == Phase::Forward; }},
    {"backward",
     [](const Instruction& i) {
       return i.opcode == Opcode::Run && i.key.phase == Phase::Backward;
     }},
    {"weight gradient",
     [](const Instruction& i) {
       return i.opcode == Opcode::Run && i.key.phase == Phase::WeightGradient;
     }},
    {"reductions", [](const Instruction& i) { return i.opcode == Opcode::Collective; }},
    {"optimizer", [](const Instruction& i) { return i.opcode == Opcode::Apply; }}};

/// The instructions of one device that take time.
std::string work_of(const PricedProgram& program, int device, double y, const PlotAxis& x) {
  std::string text;
  for (const Queue& queue : program.program.queues) {
    if (queue.device != device) continue;
    for (const InstructionId id : queue.order) {
      const Instruction& instruction = program.program.instructions[id];
      const auto* work = std::find_if(std::begin(kWork), std::end(kWork),
                                      [&](const Work& w) { return w.is(instruction); });
      if (work == std::end(kWork)) continue;
      const TaskId task = program.graph.task_of[id];
      const double start = to_seconds(program.times.start(task)).value();
      const double end = to_seconds(program.times.end(task)).value();
      if (end <= start) continue;
      const std::string title =
          instruction.opcode == Opcode::Run
              ? fmt::format("{} of micro-batch {}, {}", work->name, instruction.key.micro_batch,
                            to_text(Seconds(end - start)))
              : fmt::format("{}, {}", work->name, to_text(Seconds(end - start)));
      text += rectangle(x.at(start), y, std::max(x.at(end) - x.at(start) - 0.5, 0.3), kRow - 8.0,
                        colour(static_cast<std::size_t>(work - std::begin(kWork))), title);
    }
  }
  return text;
}

std::string time_axis(const PlotAxis& x, double end, double y) {
  std::string text;
  for (int i = 0; i <= 4; ++i) {
    const double at = end * i / 4.0;
    text += text_at(x.at(at), y, to_text(Seconds(at)),
                    i == 4 ? " class=\"quiet\" text-anchor=\"end\"" : " class=\"quiet\"");
  }
  return text;
}

/// The colour of light screens: not every program that reads SVG knows custom properties.
std::string colour_of(std::string_view name) {
  const std::string property = fmt::format("--{}: ", name);
  const std::size_t at = kPage.find(property) + property.size();
  return std::string(kPage.substr(at, kPage.find(';', at) - at));
}

/// SVG with its custom properties resolved.
std::string plain_colours(std::string_view svg) {
  constexpr std::string_view kOpen = "var(--";
  std::string text;
  for (std::size_t at = 0; at < svg.size();) {
    const std::size_t next = std::min(svg.find(kOpen, at), svg.size());
    text += svg.substr(at, next - at);
    if (next == svg.size()) break;
    const std::size_t end = svg.find(')', next);
    text += colour_of(svg.substr(next + kOpen.size(), end - next - kOpen.size()));
    at = end + 1;
  }
  return text;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
      case '&':
        safe += "&amp;";
        break;
      case '<':
        safe += "&lt;";
        break;
      case '>':
        safe += "&gt;";
        break;
      case '"':
        safe += "&quot;";
        break;
      case '\'':
        safe += "&#39;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n') safe += c;
    }
  }
  return safe;
}

Figure bars(const BarPicture& picture) {
  const std::vector<std::string> names = part_names(picture.bars);
  double most = picture.limit ? picture.limit->value : 0.0;
  for (const Bar& bar : picture.bars) most = std::max(most, total(bar));
  if (most <= 0.0) return {};
  const PlotAxis x(Scale::Linear, 0.0, most, kLeft, kWidth - 90.0);
  std::string content;
  double y = 4.0;
  for (const Bar& bar : picture.bars) {
    content += text_at(kLeft - 10.0, y + 14.0, bar.name, " text-anchor=\"end\"");
    double sum = 0.0;
    for (const BarPart& part : bar.parts) {
      if (part.value <= 0.0) continue;
      const auto name = std::ranges::find(names, part.name);
      content += rectangle(x.at(sum), y, x.at(sum + part.value) - x.at(sum), kRow - 7.0,
                           colour(static_cast<std::size_t>(name - names.begin())),
                           fmt::format("{}: {}", part.name, picture.text(part.value)));
      sum += part.value;
    }
    content += text_at(x.at(sum) + 6.0, y + 14.0, picture.text(sum));
    y += kRow;
  }
  if (picture.limit) {
    const double at = x.at(picture.limit->value);
    content += line(at, 0.0, at, y, "stroke=\"var(--ink)\" stroke-dasharray=\"4 3\"");
    content +=
        text_at(at, y + 12.0, picture.limit->name, " class=\"quiet\" text-anchor=\"middle\"");
    y += 18.0;
  }
  y += 6.0;
  content += legend(names, y);
  return {y, picture.alt, content};
}

Figure curves(const CurvePicture& picture) {
  std::vector<CurvePoint> all;
  for (const Curve& curve : picture.curves) {
    all.insert(all.end(), curve.points.begin(), curve.points.end());
  }
  if (all.size() < 2) return {};
  const auto [left, right] = std::ranges::minmax_element(all, {}, &CurvePoint::x);
  const auto [low, high] = std::ranges::minmax_element(all, {}, &CurvePoint::y);
  constexpr double kHeight = 300.0;
  constexpr double kRoom = 64.0;  // of a number below the axis
  const double floor = picture.scale == Scale::Linear ? 0.0 : low->y;
  const PlotAxis x(picture.scale, left->x, right->x, 90.0, kWidth - 30.0);
  const PlotAxis y(picture.scale, floor, high->y, kHeight - 40.0, 20.0);
  std::string content = line(90.0, kHeight - 40.0, kWidth - 30.0, kHeight - 40.0, "class=\"line\"");
  content += line(90.0, 20.0, 90.0, kHeight - 40.0, "class=\"line\"");
  for (const double value : {floor, high->y}) {
    content += text_at(82.0, y.at(value) + 4.0, picture.y_text(value),
                       " class=\"quiet\" text-anchor=\"end\"");
  }
  double free = 0.0;  // from where on there is room for a number
  for (const CurvePoint& point : picture.curves.front().points) {
    if (x.at(point.x) < free) continue;
    free = x.at(point.x) + kRoom;
    content += text_at(x.at(point.x), kHeight - 22.0, picture.x_text(point.x),
                       " class=\"quiet\" text-anchor=\"middle\"");
  }
  content += text_at(90.0, 12.0, picture.y_name, " class=\"quiet\"");
  content +=
      text_at(kWidth - 30.0, kHeight - 4.0, picture.x_name, " class=\"quiet\" text-anchor=\"end\"");
  std::vector<std::string> names;
  for (std::size_t c = 0; c < picture.curves.size(); ++c) {
    const Curve& curve = picture.curves[c];
    names.push_back(curve.name);
    if (curve.line) content += path_of(curve, x, y, colour(c));
    if (!curve.marks) continue;
    for (const CurvePoint& point : curve.points) {
      content += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"><title>{}</title></circle>\n",
          x.at(point.x), y.at(point.y), colour(c), escaped(point.name));
    }
  }
  double below = kHeight + 6.0;
  if (names.size() > 1) content += legend(names, below);
  return {below, picture.alt, content};
}

Figure timeline(const PricedProgram& program, std::string_view alt) {
  const double end = to_seconds(program.makespan()).value();
  if (end <= 0.0) return {};
  const PlotAxis x(Scale::Linear, 0.0, end, 90.0, kWidth - 10.0);
  std::string content;
  double y = 4.0;
  for (const int stage : shown_stages(program.program.devices)) {
    content += text_at(82.0, y + 13.0, fmt::format("stage {}", stage), " text-anchor=\"end\"");
    content += work_of(program, stage, y, x);
    y += kRow - 4.0;
  }
  content += time_axis(x, end, y + 14.0);
  y += 28.0;
  std::vector<std::string> names;
  for (const Work& work : kWork) names.emplace_back(work.name);
  content += legend(names, y);
  return {y, std::string(alt), content};
}

Figure memory_curve(const PricedProgram& program, std::string_view alt) {
  const auto held = held_over_time(program);
  const std::vector<Bytes> peaks = peak_bytes(program);
  if (peaks.empty() || program.devices.size() != peaks.size()) return {};
  const auto at_most = [&](std::size_t d) {
    return (program.devices[d].always + peaks[d]).value();
  };
  std::size_t fullest = 0;
  for (std::size_t d = 1; d < peaks.size(); ++d) {
    if (at_most(d) > at_most(fullest)) fullest = d;
  }
  std::vector<std::size_t> shown{fullest};
  for (const std::size_t d : {std::size_t{0}, peaks.size() - 1}) {
    if (std::ranges::find(shown, d) == shown.end()) shown.push_back(d);
  }
  CurvePicture picture;
  picture.alt = alt;
  picture.y_name = "memory of a stage";
  picture.x_name = "time";
  picture.y_text = [](double bytes) { return to_text(Bytes(bytes)); };
  picture.x_text = [](double) { return std::string(); };
  const double end = to_seconds(program.makespan()).value();
  for (const std::size_t d : shown) {
    Curve curve{
        fmt::format("stage {}{}", d, d == fullest ? ", the fullest" : ""), {}, false, false};
    double bytes = program.devices[d].always.value();
    curve.points.push_back({0.0, bytes, {}});
    for (const HeldBytes& change : held[d]) {
      const double at = to_seconds(change.at).value();
      curve.points.push_back({at, bytes, {}});
      bytes = (program.devices[d].always + change.bytes).value();
      curve.points.push_back({at, bytes, to_text(Bytes(bytes))});
    }
    curve.points.push_back({end, bytes, {}});
    picture.curves.push_back(std::move(curve));
  }
  return curves(picture);
}

std::string svg_file(std::span<const Figure> figures) {
  std::string content;
  double height = 0.0;
  for (const Figure& figure : figures) {
    content += height == 0.0 ? figure.content
                             : fmt::format("<g transform=\"translate(0 {:.0f})\">\n{}</g>\n",
                                           height, figure.content);
    height += figure.height;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1000\" viewBox=\"0 0 1000 {:.0f}\" "
      "role=\"img\" aria-label=\"{}\">\n"
      "<style>text {{ fill: {}; font: 12px sans-serif; }} .quiet {{ fill: {}; }} "
      ".on {{ stroke: {}; stroke-width: 3px; paint-order: stroke; font-weight: 600; }} "
      ".line {{ stroke: {}; }}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"{}\"/>\n{}</svg>\n",
      height, figures.empty() ? "nothing to draw" : escaped(figures.front().alt), colour_of("ink"),
      colour_of("quiet"), colour_of("paper"), colour_of("line"), colour_of("paper"),
      plain_colours(content));
}

}  // namespace plansearch::page
