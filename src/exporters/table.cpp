// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "exporters/exporter.hpp"

namespace plansearch::exporters {

// Each is made in its own file.
Exporter megatron_exporter();
Exporter deepspeed_exporter();
Exporter megatron_deepspeed_exporter();
Exporter torchtitan_exporter();
Exporter torchtitan_toml_exporter();
Exporter nanotron_exporter();
Exporter accelerate_exporter();

const std::vector<Exporter>& exporter_table() {
  static const std::vector<Exporter> kTable{
      megatron_exporter(),   deepspeed_exporter(),       megatron_deepspeed_exporter(),
      torchtitan_exporter(), torchtitan_toml_exporter(), nanotron_exporter(),
      accelerate_exporter(),
  };
  return kTable;
}

const Exporter* find_exporter(std::string_view name) {
  const auto& table = exporter_table();
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const Exporter& e) { return e.name == name; });
  return found == table.end() ? nullptr : &*found;
}

const Accepts* find_accepts(const Exporter& exporter, Setting setting) {
  const auto found = std::find_if(exporter.accepts.begin(), exporter.accepts.end(),
                                  [&](const Accepts& a) { return a.setting == setting; });
  return found == exporter.accepts.end() ? nullptr : &*found;
}

}  // namespace plansearch::exporters
