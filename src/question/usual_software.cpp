// SPDX-License-Identifier: Apache-2.0
#include "question/usual_software.hpp"

#include <algorithm>

#include "exporters/export_plan.hpp"
#include "exporters/export_request.hpp"
#include "io/hardware/profile_reader.hpp"
#include "plansearch/degree_table.hpp"

namespace plansearch {

ChipSoftwareTable chip_software(const ShippedData& data) {
  return io::read_chip_software(data.directory() / "frameworks" / "operators" / "chips.yaml");
}

Framework asked_framework(const ProblemRequest& request, const ShippedData& data,
                          std::string_view accelerator, StackKind stack) {
  const ChipSoftwareTable chips = chip_software(data);
  const ChipSoftware* chip = software_of(chips, accelerator);
  const Chosen<std::string> named = framework_name(request);
  const auto find = [&](std::string_view name) { return data.framework(name); };
  const bool open = named.origin() == "default";
  if (open && chip != nullptr && chip->framework) {
    return usual_framework(*chip->framework, chip, find);
  }
  // Programs for decoders have no layers of other networks; where degrees cut those, they do.
  const bool graph = stack == StackKind::Graph;
  const bool cuts = std::ranges::any_of(degree_table(), [&](const DegreeRow& row) {
    const bool mesh = kMeshDegrees.contains(row.degree) && row.degree != Degree::Data;
    return mesh && request.degrees.get(row.degree).value_or(1) > 1;
  });
  return usual_framework(open && graph && !cuts ? "fsdp2" : named.value(), chip, find);
}

std::vector<std::string> adapter_targets_of(const std::string& program) {
  const exporters::Targets targets(shipped_data().directory());
  const exporters::Exporter* exporter = program.empty() ? nullptr : targets.find(program);
  if (exporter == nullptr) return {};
  const exporters::Accepts* line =
      exporters::find_accepts(*exporter, exporters::setting_of(Setting::LoraTargets));
  if (line == nullptr || line->values.empty()) return {};
  return {line->values.front()};
}

bool freezes_towers(const std::string& program) {
  const exporters::Targets targets(shipped_data().directory());
  const exporters::Exporter* exporter = program.empty() ? nullptr : targets.find(program);
  return exporter != nullptr && exporter->freezes_towers;
}

Framework widened(Framework own, const Framework& widest) {
  own.name += kWiderSuffix;
  own.aliases.clear();
  own.has_program = false;
  own.space = widest.space;
  const bool has_all = std::ranges::all_of(widest.rank_order, [&](Axis axis) {
    return std::ranges::find(own.rank_order, axis) != own.rank_order.end();
  });
  if (!has_all) own.rank_order = widest.rank_order;
  own.layers = widest.layers;
  own.own_layers = widest.own_layers;
  own.schedules = widest.schedules;
  own.operator_steps = widest.operator_steps;
  own.runs_pieces = widest.runs_pieces;
  own.shares_devices = widest.shares_devices;
  own.offloads = widest.offloads;
  own.rules = widest.rules;
  own.features.clear();
  own.content_hash ^= widest.content_hash;
  return own;
}

Framework usual_framework(const std::string& name, const ChipSoftware* chip,
                          const std::function<Framework(std::string_view)>& find) {
  if (name.size() > 1 && name.back() == kWiderSuffix) {
    return widened(usual_framework(name.substr(0, name.size() - 1), chip, find), find("any"));
  }
  Framework framework = find(name);
  if (chip == nullptr) return framework;
  const auto release = chip->releases.find(framework.name);
  if (release != chip->releases.end()) framework = find(release->second);
  if (framework.attention_kernel && chip->attention_kernel) {
    framework.attention_kernel = chip->attention_kernel;
  }
  return framework;
}

}  // namespace plansearch
