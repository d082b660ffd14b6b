// SPDX-License-Identifier: Apache-2.0
// Short forms for the tables of facts.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "exporters/exporter.hpp"
#include "exporters/fact.hpp"

namespace plansearch::exporters {

using H = const ExportRequest&;
using R = Reading&;
using V = const Value&;
using D = Degree;
using S = Setting;

[[nodiscard]] constexpr Setting chosen(plansearch::Setting setting) {
  return setting_of(setting);
}
/// A value where it is said.
template <typename T>
[[nodiscard]] Value where(bool said, const T& value) {
  return said ? Value(value) : Value();
}
[[nodiscard]] inline bool has_precision(H h, std::initializer_list<DataType> types) {
  return std::ranges::find(types, h.problem.precision) != types.end();
}

/// Fields of the network: `reader(r).*Field` where it is read.
template <auto Field>
[[nodiscard]] Fact model_fact(std::string_view name) {
  return {std::string(name),
          {S::Model},
          [](H h) { return Value(h.model().*Field); },
          [](R r, V v) {
            r.has_model = true;
            read_into(r.model.*Field, v);
          }};
}
template <auto Field>
[[nodiscard]] Fact attention_fact(std::string_view name) {
  return {std::string(name),
          {S::Model},
          [](H h) { return Value(h.model().attention.*Field); },
          [](R r, V v) { read_into(r.model.attention.*Field, v); }};
}
template <auto Field>
[[nodiscard]] Fact latent_fact(std::string_view name) {
  return {std::string(name),
          {S::Model},
          [](H h) {
            const auto& latent = h.model().attention.latent;
            return latent ? Value((*latent).*Field) : Value();
          },
          [](R r, V v) { read_into(r.latent().*Field, v); }};
}
template <auto Field>
[[nodiscard]] Fact moe_fact(std::string_view name) {
  return {std::string(name),
          {S::Model},
          [](H h) {
            const auto& moe = h.model().moe;
            return moe ? Value((*moe).*Field) : Value();
          },
          [](R r, V v) { read_into(r.experts().*Field, v); }};
}

}  // namespace plansearch::exporters
