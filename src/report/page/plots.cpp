// SPDX-License-Identifier: Apache-2.0
#include "report/page/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/units.hpp"
#include "plansearch/device_mesh.hpp"
#include "report/plan_cells.hpp"

namespace plansearch::page {
namespace {

/// More bars than this are not readable.
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

/// Bars of the best plans, without variants.
template <typename Breakdown>
std::vector<Bar> bars_of(const SearchReport& report, const Breakdown Estimate::*breakdown) {
  std::vector<Bar> bars;
  for (const PlanReport& plan : report.plans) {
    if (bars.size() == kMostBars) break;
    if (!plan.variant_of) bars.push_back(bar_of(plan, plan.estimate.*breakdown));
  }
  return bars;
}

/// The part of the step that a program shows, as the end of a sentence.
std::string shown_part(const PageContent& content) {
  const int shown = content.program->shape.micro_batches;
  if (shown >= content.micro_batches) return {};
  return fmt::format(" The first {} of {} micro-batches.", shown, content.micro_batches);
}

constexpr int kMostNodes = 8;
constexpr int kMostSquares = 16;  ///< of a node
constexpr double kSquare = 34.0;

/// The number of a rank along a role, and the number of its group among all groups of the role.
struct Place {
  int along = 0;
  int group = 0;
};
Place place_of(const DeviceMesh& mesh, int rank, AxisSet axes) {
  const unsigned factors = mesh.factors_of(axes);
  Place place;
  int along = 1;
  int across = 1;
  for (std::size_t f = 0; f < mesh.factors.size(); ++f) {
    const AxisExtent& extent = mesh.factors[f];
    const int coordinate = rank / extent.stride % extent.size;
    if ((factors >> f & 1U) != 0) {
      place.along += coordinate * along;
      along *= extent.size;
    } else {
      place.group += coordinate * across;
      across *= extent.size;
    }
  }
  return place;
}

struct NamedAxis {
  const char* name;
  Axis axis;
};
constexpr NamedAxis kAxes[] = {{"tensor (in)", Axis::In},
                               {"tensor", Axis::Out},
                               {"tensor (depth)", Axis::Depth},
                               {"context", Axis::Context},
                               {"data", Axis::Data},
                               {"pipeline", Axis::Pipeline},
                               {"expert tensor", Axis::ExpertTensor},
                               {"expert", Axis::Expert}};

/// Nodes in rows, an accelerator a square: its colour is the stage, its number the tensor group.
Figure rank_picture(const PlanDegrees& plan, const Problem& problem) {
  const DeviceMesh mesh = make_device_mesh(plan, problem.framework->rank_order);
  const int per_node = std::min(problem.cluster->accelerators_per_node, mesh.ranks);
  const int nodes = (mesh.ranks + per_node - 1) / per_node;
  if (mesh.ranks < 2 || per_node > kMostSquares) return {};
  constexpr AxisSet kTensor{Axis::In, Axis::Out, Axis::Depth};
  std::string squares;
  double y = 4.0;
  for (int node = 0; node < std::min(nodes, kMostNodes); ++node) {
    squares += fmt::format("<text x=\"{}\" y=\"{:.0f}\" text-anchor=\"end\">node {}</text>\n",
                           kLeft - 8.0, y + 21.0, node);
    for (int i = 0; i < per_node && node * per_node + i < mesh.ranks; ++i) {
      const int rank = node * per_node + i;
      const int stage = place_of(mesh, rank, AxisSet{Axis::Pipeline}).along;
      const int group = place_of(mesh, rank, kTensor).group;
      const double x = kLeft + i * (kSquare + 6.0);
      squares += fmt::format(
          "<rect x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"{2}\" height=\"28\" rx=\"4\" "
          "fill=\"var(--c{3})\"><title>rank {4}: stage {5}, tensor group {6}</title></rect>"
          "<text class=\"on\" x=\"{7:.0f}\" y=\"{8:.0f}\" text-anchor=\"middle\">{6}</text>\n",
          x, y, kSquare, stage % kColours, rank, stage, group, x + kSquare / 2.0, y + 18.0);
    }
    y += 36.0;
  }
  const std::string alt = fmt::format(
      "{} of {} nodes, a square for every accelerator: its colour is its pipeline stage, equal "
      "numbers are one tensor group.",
      nodes > kMostNodes ? fmt::format("The first {}", kMostNodes) : "All", nodes);
  return {y, alt, squares};
}

Figure ladder_plot(const PageContent& content) {
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

Figure step_plot(const PageContent& content) {
  return bars({"Where the step of every plan goes.", bars_of(*content.report, &Estimate::step),
               seconds_text});
}

Figure memory_plot(const PageContent& content) {
  return bars({"What fills the fullest device of every plan.",
               bars_of(*content.report, &Estimate::memory), bytes_text,
               BarPart{"capacity", content.report->question.memory_capacity.value()}});
}

Figure pareto_plot(const PageContent& content) {
  CurvePicture picture;
  Curve front{"front", {}};
  for (const PlanReport& plan : content.report->front) {
    const Estimate& e = plan.estimate;
    front.points.push_back({e.memory.total().value(), e.step.total().value(),
                            fmt::format("{}: {}, {}", short_plan(plan.plan),
                                        to_text(e.step.total()), to_text(e.memory.total()))});
  }
  std::ranges::sort(front.points, {}, &CurvePoint::x);
  picture.curves = {std::move(front)};
  picture.alt = "Pareto front: no plan beats one of these in both step time and memory.";
  picture.x_name = "memory";
  picture.y_name = "step time";
  picture.x_text = bytes_text;
  picture.y_text = seconds_text;
  picture.scale = Scale::Logarithmic;
  return curves(picture);
}

Figure timeline_plot(const PageContent& content) {
  if (content.program == nullptr) return {};
  return timeline(*content.program, "What every stage does over the step." + shown_part(content));
}

Figure held_plot(const PageContent& content) {
  if (content.program == nullptr) return {};
  return memory_curve(*content.program, "What stages hold meanwhile." + shown_part(content));
}

Figure groups_plot(const PageContent& content) {
  if (content.problem == nullptr) return {};
  const PlanSummary& plan = content.report->plans.front().plan;
  if (!plan.stages.empty() || content.problem->gpus < 2) return {};
  return rank_picture(plan.degrees, *content.problem);
}

}  // namespace

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
       // The command sweep draws it itself.
       {"sweep", "the answers of plansearch sweep",
        [](const PageContent& /*content*/) { return Figure{}; }}}};
  return kPlots;
}

TextTable group_table(const PlanDegrees& plan, const Problem& problem) {
  const DeviceMesh mesh = make_device_mesh(plan, problem.framework->rank_order);
  const int per_node = problem.cluster->accelerators_per_node;
  TextTable table({{"group", Align::Left}, {"ranks"}, {"neighbours apart"}, {"nodes"}});
  for (const auto& [name, axis] : kAxes) {
    const int size = mesh.size(AxisSet{axis});
    if (size < 2) continue;
    const int apart = mesh.neighbour_distance(axis);
    int nodes = 0;
    int last = -1;
    const Place first = place_of(mesh, 0, AxisSet{axis});
    for (int rank = 0; rank < mesh.ranks; ++rank) {
      if (place_of(mesh, rank, AxisSet{axis}).group != first.group) continue;
      if (rank / per_node != last) ++nodes;
      last = rank / per_node;
    }
    table.add_row({name, grouped(size), grouped(apart), grouped(nodes)});
  }
  return table;
}

}  // namespace plansearch::page
