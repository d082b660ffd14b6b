// SPDX-License-Identifier: Apache-2.0
#include "report/page/rank_picture.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plansearch/device_mesh.hpp"
#include "report/page/html.hpp"
#include "report/page/style.hpp"
#include "report/plan_cells.hpp"

namespace plansearch::page {
namespace {

constexpr int kMostNodes = 8;
constexpr int kMostSquares = 16;  ///< of a node
constexpr double kSquare = 34.0;

/// The number of a rank along a role, and the number of its group among all groups of the role.
struct Place {
  int along = 0;
  int group = 0;
};
Place place_of(const DeviceMesh& mesh, int rank, AxisSet axes) {
  std::uint32_t factors = 0;
  for (std::size_t axis = 0; axis < kAxisCount; ++axis) {
    if (axes.contains(static_cast<Axis>(axis))) {
      factors |= mesh[static_cast<Axis>(axis)].factors;
    }
  }
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

}  // namespace

std::string rank_picture(const PlanDegrees& plan, const Problem& problem) {
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
  return fmt::format(
      "<figure><svg viewBox=\"0 0 1000 {:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg>"
      "<figcaption>{}</figcaption></figure>\n",
      y, escaped(alt), squares, escaped(alt));
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
