// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

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
Exporter axonn_exporter();
Exporter galvatron_exporter();
Exporter megatron_bridge_exporter();
Exporter nnscaler_exporter();
Exporter pytorch_csv_exporter();
Exporter axolotl_exporter();
Exporter llama_factory_exporter();
Exporter swift_exporter();
Exporter verl_exporter();
Exporter verl_fsdp_exporter();
Exporter maxtext_exporter();
Exporter alpa_exporter();
Exporter chakra_exporter();

namespace {

/// What a key says the target takes, any value of it where no line restricts them.
void take_what_keys_say(Exporter& exporter) {
  for (const Document& document : exporter.documents) {
    for (const Key& key : document.keys) {
      for (const Setting setting : key.says) {
        if (find_accepts(exporter, setting) == nullptr) exporter.accepts.push_back({setting});
      }
    }
  }
}

struct Row {
  std::string_view name;
  Exporter (*make)();
};

constexpr std::array kRows{Row{"megatron", megatron_exporter},
                           Row{"deepspeed", deepspeed_exporter},
                           Row{"megatron-deepspeed", megatron_deepspeed_exporter},
                           Row{"torchtitan", torchtitan_exporter},
                           Row{"torchtitan-0.2", torchtitan_toml_exporter},
                           Row{"nanotron", nanotron_exporter},
                           Row{"accelerate", accelerate_exporter},
                           Row{"axonn", axonn_exporter},
                           Row{"galvatron", galvatron_exporter},
                           Row{"megatron-bridge", megatron_bridge_exporter},
                           Row{"nnscaler", nnscaler_exporter},
                           Row{"pytorch-csv", pytorch_csv_exporter},
                           Row{"axolotl", axolotl_exporter},
                           Row{"llama-factory", llama_factory_exporter},
                           Row{"ms-swift", swift_exporter},
                           Row{"verl", verl_exporter},
                           Row{"verl-fsdp", verl_fsdp_exporter},
                           Row{"maxtext", maxtext_exporter},
                           Row{"alpa", alpa_exporter},
                           Row{"chakra", chakra_exporter}};

}  // namespace

std::vector<std::string> exporter_names() {
  std::vector<std::string> names;
  for (const Row& row : kRows) names.emplace_back(row.name);
  return names;
}

const std::vector<Exporter>& exporter_table() {
  static const std::vector<Exporter> kTable = [] {
    std::vector<Exporter> table;
    for (const Row& row : kRows) {
      table.push_back(row.make());
      table.back().name = row.name;
      take_what_keys_say(table.back());
    }
    return table;
  }();
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
