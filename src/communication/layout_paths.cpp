// SPDX-License-Identifier: Apache-2.0
// Computes: ways between layouts, each once.
// Source: communication/redistribution.hpp.
// Assumes: one mesh. Units: elements of the whole message.
// Checked by: tests/unit/evaluate/choice_tables_test.cpp
#include "communication/layout_paths.hpp"

#include <algorithm>

namespace plansearch {
namespace {

/// Ways that are kept; about 200 bytes each.
constexpr std::size_t kMostPaths = 500'000;

template <typename T>
void put(std::string& key, T value) {
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string key_of(const Layout& layout) {
  std::string key;
  for (const SliceMap& map : layout.dims) {
    for (const SliceDigit& digit : map.digits()) {
      put(key, digit.modulus);
      put(key, static_cast<std::uint8_t>(digit.terms.size()));
      for (const SliceTerm& term : digit.terms) {
        put(key, term.axis);
        put(key, term.coefficient);
      }
      put(key, digit.time);
      put(key, digit.last);
      put(key, digit.offset);
      put(key, digit.period);
    }
    key += '|';
  }
  put(key, layout.partial.bits());
  return key;
}

}  // namespace

void write_path(const std::vector<RedistributionStep>& steps, const DeviceMesh& mesh,
                std::span<const double> extents, Path& path) {
  path.clear();
  for (const RedistributionStep& step : steps) {
    path.push_back({step.kind, step.axes, step.group_size, step.elements,
                    local_elements(step.result, mesh, extents)});
  }
}

std::uint32_t LayoutPaths::number(const Layout& layout) {
  const auto next = static_cast<std::uint32_t>(layouts_.size() + 1);
  return layouts_.try_emplace(key_of(layout), next).first->second;
}

std::uint64_t LayoutPaths::number_of(std::span<const double> extents) {
  const auto known = std::find_if(extents_.begin(), extents_.end(), [&](const auto& other) {
    return std::equal(other.begin(), other.end(), extents.begin(), extents.end());
  });
  const auto number = static_cast<std::uint64_t>(known - extents_.begin());
  if (known == extents_.end()) extents_.emplace_back(extents.begin(), extents.end());
  return number;
}

const Path& LayoutPaths::path(const DeviceMesh& mesh, std::span<const double> extents,
                              const NumberedLayout& from, const NumberedLayout& to) {
  constexpr unsigned kBits = 24;
  PLANSEARCH_CHECK(from.number >> kBits == 0 && to.number >> kBits == 0);
  const std::uint64_t key = number_of(extents) << (2 * kBits) |
                            static_cast<std::uint64_t>(from.number) << kBits | to.number;
  if (paths_.size() >= kMostPaths) paths_.clear();
  const auto [place, is_new] = paths_.try_emplace(key);
  if (is_new) {
    redistribute(mesh, extents, from.layout, to.layout, *scratch_, steps_);
    write_path(steps_, mesh, extents, place->second);
  }
  return place->second;
}

}  // namespace plansearch
