// SPDX-License-Identifier: Apache-2.0
// Moves of tensors between layouts, with buffers of their own, and what is captured of them.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "communication/redistribution/redistribution.hpp"
#include "communication/slices/layout.hpp"
#include "plansearch/communication.hpp"
#include "plansearch/framework.hpp"

namespace plansearch {

inline std::string_view to_text(Scope scope) {
  constexpr std::array<std::string_view, 3> kWords{"use", "micro-batch", "step"};
  return kWords.at(static_cast<std::size_t>(scope));
}

/// "all-reduce out x8 4096 elements after 3 forward"
inline std::string to_text(const Communication& demand) {
  return fmt::format("{} {} x{} {} elements {} {} {}, {} times per {}", to_text(demand.kind),
                     to_text(demand.axes), demand.group_size, demand.elements,
                     demand.side == Side::Before ? "before" : "after", demand.operator_index,
                     to_text(demand.phase), demand.count, to_text(demand.scope));
}

/// "[0:data,depth 2:out] partial{in} flat{data}"
inline std::string to_text(const Layout& layout) {
  std::string text = "[";
  for (std::size_t i = 0; i < layout.dims.size(); ++i) {
    if (layout.dims[i].whole()) continue;
    if (text.size() > 1) text += ' ';
    text += fmt::format("{}:{}", i, to_text(layout.dims[i].axes()));
  }
  text += ']';
  if (!layout.partial.empty()) text += fmt::format(" partial{{{}}}", to_text(layout.partial));
  AxisSet flat;
  for (const Axis axis : layout.flat) flat.insert(axis);
  if (!flat.empty()) text += fmt::format(" flat{{{}}}", to_text(flat));
  return text;
}

namespace test {

inline std::vector<RedistributionStep> redistribute(const TensorMove& move) {
  std::vector<RedistributionStep> steps;
  plansearch::redistribute(move, *make_redistribution_scratch(), steps);
  return steps;
}

}  // namespace test
}  // namespace plansearch
