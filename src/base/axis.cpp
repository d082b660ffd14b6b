// SPDX-License-Identifier: Apache-2.0
#include "plansearch/axis.hpp"

#include <array>

namespace plansearch {
namespace {

constexpr std::array<std::string_view, kAxisCount> kNames{
    "in",     "out",         "depth", "context", "data", "pipeline", "expert-tensor",
    "expert", "expert-data", "shard", "replica", "t0",   "t1",       "t2",
    "t3",     "t4",          "t5",    "t6",      "t7"};

}  // namespace

std::string_view to_text(Axis axis) {
  return kNames[static_cast<std::size_t>(axis)];
}

std::string_view spoken_name(Axis axis) {
  switch (axis) {
    case Axis::In:
      return "tensor-x";
    case Axis::Out:
      return "tensor";
    case Axis::Depth:
      return "tensor-z";
    default:
      return to_text(axis);
  }
}

std::optional<Axis> parse_axis(std::string_view text) {
  for (std::size_t i = 0; i < kRoleCount; ++i) {
    if (kNames[i] == text) return static_cast<Axis>(i);
  }
  return std::nullopt;
}

std::string spoken_name(AxisSet axes) {
  std::string text;
  for_each_axis(axes, [&](Axis axis) {
    if (!text.empty()) text += '+';
    text += spoken_name(axis);
  });
  return text;
}

std::string to_text(AxisSet axes) {
  std::string text;
  for_each_axis(axes, [&](Axis axis) {
    if (!text.empty()) text += ',';
    text += to_text(axis);
  });
  return text;
}

}  // namespace plansearch
