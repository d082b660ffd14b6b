// SPDX-License-Identifier: Apache-2.0
// Facts: what a key of some configuration can say of a plan, its question, its network or its job,
// and what a value that is read back changes. A target (frameworks/export/TARGET.yaml) spells them.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/export_request.hpp"
#include "exporters/exporter.hpp"
#include "exporters/reading.hpp"

namespace plansearch::exporters {

struct Fact {
  std::string name;
  std::vector<Setting> says;  ///< by a key that has it, unless the row of the key says others
  /// Null: not said. A switch is a boolean, whatever the target writes for it.
  std::function<Value(const ExportRequest&)> write{};
  /// The inverse; absent: only what several facts say together is read (`settle`).
  std::function<void(Reading&, const Value&)> read{};
  bool closed = false;     ///< words that a target does not spell are wrong values
  bool free_text = false;  ///< as the user wrote it: quoted where the target asks for it
};
using Facts = std::vector<Fact>;

/// Degrees, settings and kinds of overlap by their own names, then the files below.
[[nodiscard]] const Fact* find_fact(std::string_view name);
[[nodiscard]] std::vector<std::string> fact_names();

// By what they are about.
using MakeFacts = Facts();
MakeFacts plan_facts, network_facts, megatron_facts, layer_facts, verl_facts, deepspeed_facts;
MakeFacts trainer_facts, torchtitan_facts, nanotron_facts, maxtext_facts, axonn_facts;
MakeFacts alpa_facts, galvatron_facts, order_facts;

/// Boolean facts as conditions: whether it holds of the request.
[[nodiscard]] bool holds(const Fact& fact, const ExportRequest& request);

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
