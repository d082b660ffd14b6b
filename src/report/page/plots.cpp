// SPDX-License-Identifier: Apache-2.0
#include "report/page/plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/units.hpp"
#include "report/page/pictures.hpp"
#include "report/page/rank_picture.hpp"
#include "report/page/style.hpp"
#include "report/plan_cells.hpp"
#include "report/plan_tables.hpp"

namespace plansearch::page {
namespace {

/// Bars of more plans say nothing.
constexpr std::size_t kMostBars = 10;

std::string seconds_text(double seconds) {
  return to_text(Seconds(seconds));
}
std::string bytes_text(double bytes) {
  return to_text(Bytes(bytes));
}

template <typename Breakdown>
Bar bar_of(const PlanReport& plan, const Breakdown& breakdown) {
  Bar bar{fmt::format("plan {}", plan.rank), {}};
  for (const auto& part : parts_of(breakdown)) bar.parts.push_back({part.name, part.value.value()});
  return bar;
}

/// Of the best plans; variants are the plan they vary.
template <typename Breakdown>
std::vector<Bar> bars_of(const SearchReport& report, const Breakdown Estimate::*breakdown) {
  std::vector<Bar> bars;
  for (const PlanReport& plan : report.plans) {
    if (bars.size() == kMostBars) break;
    if (!plan.variant_of) bars.push_back(bar_of(plan, plan.estimate.*breakdown));
  }
  return bars;
}

/// How much of the step a program shows, as the end of a sentence.
std::string shown_part(const PageContent& content) {
  const int shown = content.program->shape.micro_batches;
  if (shown >= content.micro_batches) return {};
  return fmt::format(" The first {} of {} micro-batches.", shown, content.micro_batches);
}

/// The colour of light screens: not every program that reads SVG knows custom properties.
std::string colour_of(std::string_view name) {
  const std::string property = fmt::format("--{}: ", name);
  const std::size_t at = kStyle.find(property) + property.size();
  return std::string(kStyle.substr(at, kStyle.find(';', at) - at));
}

/// With custom properties resolved.
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

std::string ladder_plot(const PageContent& content) {
  const LadderReport* ladder = content.ladder;
  if (ladder == nullptr) return {};
  std::vector<CurvePoint> predicted;
  std::vector<CurvePoint> ideal;
  const LadderRung* first = nullptr;
  for (const LadderRung& rung : ladder->rungs) {
    if (rung.report.plans.empty()) continue;
    if (first == nullptr) first = &rung;
    const double gpus = rung.report.question.gpus;
    const double smallest = first->report.question.gpus;
    predicted.push_back({gpus, rung.speedup,
                         fmt::format("{} GPUs: {:.2f} x, {}", grouped(rung.report.question.gpus),
                                     rung.speedup, share_text(rung.efficiency))});
    ideal.push_back({gpus, gpus / smallest, {}});
  }
  CurvePicture picture;
  picture.alt =
      "Speed-up over the smallest size that runs, beside the growth in GPUs; both axes "
      "are logarithmic.";
  picture.curves = {{"predicted", std::move(predicted)}, {"ideal", std::move(ideal), false, true}};
  picture.x_name = "GPUs";
  picture.y_name = "speed-up";
  picture.x_text = [](double gpus) { return grouped(static_cast<std::int64_t>(gpus)); };
  picture.y_text = [](double speedup) { return fmt::format("{:.4g}", speedup); };
  picture.scale = Scale::Logarithmic;
  return curves(picture);
}

std::string step_plot(const PageContent& content) {
  return bars({"Where the step of every plan goes.", bars_of(*content.report, &Estimate::step),
               seconds_text});
}

std::string memory_plot(const PageContent& content) {
  return bars({"What fills the fullest device of every plan.",
               bars_of(*content.report, &Estimate::memory), bytes_text,
               BarPart{"capacity", content.report->question.memory_capacity.value()}});
}

std::string pareto_plot(const PageContent& content) {
  CurvePicture picture;
  Curve front{"front", {}};
  for (const PlanReport& plan : content.report->front) {
    const Estimate& e = plan.estimate;
    front.points.push_back({e.memory.total().value(), e.step.total().value(),
                            fmt::format("{}: {}, {}", short_plan(plan.plan),
                                        to_text(e.step.total()), to_text(e.memory.total()))});
  }
  std::sort(front.points.begin(), front.points.end(),
            [](const CurvePoint& a, const CurvePoint& b) { return a.x < b.x; });
  picture.curves = {std::move(front)};
  picture.alt = "Pareto front: no plan beats one of these in both step time and memory.";
  picture.x_name = "memory";
  picture.y_name = "step time";
  picture.x_text = bytes_text;
  picture.y_text = seconds_text;
  picture.scale = Scale::Logarithmic;
  return curves(picture);
}

std::string timeline_plot(const PageContent& content) {
  if (content.program == nullptr) return {};
  return timeline(*content.program, "What every stage does over the step." + shown_part(content));
}

std::string held_plot(const PageContent& content) {
  if (content.program == nullptr) return {};
  return memory_curve(*content.program, "What stages hold meanwhile." + shown_part(content));
}

std::string groups_plot(const PageContent& content) {
  if (content.problem == nullptr) return {};
  const PlanSummary& plan = content.report->plans.front().plan;
  if (!plan.stages.empty() || content.problem->gpus < 2) return {};
  return rank_picture(plan.degrees, *content.problem);
}

std::span<const PlotRow> plots() {
  static constexpr std::array<PlotRow, 8> kPlots{
      {{"ladder", "a search over several sizes: leave out --gpus", ladder_plot},
       {"step", "a plan that fits", step_plot},
       {"memory", "a plan that fits", memory_plot},
       {"pareto", "a search that finds two plans, neither better in both time and memory",
        pareto_plot},
       {"timeline", "a plan that fits", timeline_plot},
       {"held", "a plan that fits", held_plot},
       {"groups", "a plan of several accelerators whose stages are alike", groups_plot},
       // Of many answers; `sweep` draws it itself.
       {"sweep", "the answers of plansearch sweep",
        [](const PageContent& /*content*/) { return std::string(); }}}};
  return kPlots;
}

std::string svg_file(std::string_view figure) {
  constexpr std::string_view kOpen = "<svg ", kClose = "</svg>";
  const std::size_t open = figure.find(kOpen);
  const std::size_t content = figure.find('>', open) + 1;
  const std::size_t close = figure.find(kClose, content);
  const std::string_view attributes =
      figure.substr(open + kOpen.size(), content - 1 - open - kOpen.size());
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1000\" {}>\n"
      "<style>text {{ fill: {}; font: 12px sans-serif; }} .quiet {{ fill: {}; }} "
      ".on {{ stroke: {}; stroke-width: 3px; paint-order: stroke; font-weight: 600; }} "
      ".line {{ stroke: {}; }}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"{}\"/>{}</svg>\n",
      attributes, colour_of("ink"), colour_of("quiet"), colour_of("paper"), colour_of("line"),
      colour_of("paper"), plain_colours(figure.substr(content, close - content)));
}

}  // namespace plansearch::page
