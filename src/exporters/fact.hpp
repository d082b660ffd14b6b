// SPDX-License-Identifier: Apache-2.0
// Facts: what a key of some configuration can say of a plan, its question, its network or its job,
// and what a value that is read back changes. A target (frameworks/export/TARGET.yaml) spells them.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/export_request.hpp"
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
[[nodiscard]] Facts plan_facts();
[[nodiscard]] Facts network_facts();
[[nodiscard]] Facts megatron_facts();
[[nodiscard]] Facts verl_facts();
[[nodiscard]] Facts deepspeed_facts();
[[nodiscard]] Facts trainer_facts();
[[nodiscard]] Facts torchtitan_facts();
[[nodiscard]] Facts nanotron_facts();
[[nodiscard]] Facts maxtext_facts();
[[nodiscard]] Facts axonn_facts();

/// Boolean facts as conditions: whether it holds of the request.
[[nodiscard]] bool holds(const Fact& fact, const ExportRequest& request);

}  // namespace plansearch::exporters
