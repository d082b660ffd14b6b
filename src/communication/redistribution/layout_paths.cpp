// SPDX-License-Identifier: Apache-2.0
// Computes: the steps of paths between layouts, numbers of layouts.
// Source: communication/redistribution/redistribution.hpp.
// Assumes: one mesh.
// Units: elements of the whole message.
// Checked by: tests/unit/evaluate/choice_tables_test.cpp
#include "communication/redistribution/layout_paths.hpp"

#include "base/key_bytes.hpp"

namespace plansearch {
namespace {

std::string key_of(const Layout& layout) {
  std::string key;
  for (const SliceMap& map : layout.dims) {
    for (const SliceDigit& digit : map.digits()) {
      put_bytes(key, digit.modulus);
      put_bytes(key, static_cast<std::uint8_t>(digit.terms.size()));
      for (const SliceTerm& term : digit.terms) {
        put_bytes(key, term.axis);
        put_bytes(key, term.coefficient);
      }
      put_bytes(key, digit.time);
      put_bytes(key, digit.last);
      put_bytes(key, digit.offset);
      put_bytes(key, digit.period);
    }
    key += '|';
  }
  put_bytes(key, layout.partial.bits());
  return key;
}

}  // namespace

void write_path(const std::vector<RedistributionStep>& steps, const TensorMove& move, Path& path) {
  path.clear();
  for (const RedistributionStep& step : steps) {
    const bool priced = move.rates != nullptr && step.kind != CommunicationKind::Slice;
    const double rate = priced ? move.rates->rate(step.kind, step.axes) : 1.0;
    path.push_back({step.kind, step.axes, step.group_size, step.elements,
                    local_elements(step.result, move.mesh, move.extents),
                    elements_moved(step.kind, step.group_size, step.elements) * rate});
  }
}

std::uint32_t LayoutNumbers::number(const Layout& layout) {
  const auto next = static_cast<std::uint32_t>(layouts_.size() + 1);
  return layouts_.try_emplace(key_of(layout), next).first->second;
}

}  // namespace plansearch
