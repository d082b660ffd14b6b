// SPDX-License-Identifier: Apache-2.0
#include "question/usual_software.hpp"

#include "io/hardware/chip_software_reader.hpp"

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
  // Programs for decoders of text have no layers of other networks.
  const bool text = stack != StackKind::Vision && stack != StackKind::Graph;
  return usual_framework(open && !text ? "fsdp2" : named.value(), chip, find);
}

Framework usual_framework(const std::string& name, const ChipSoftware* chip,
                          const std::function<Framework(std::string_view)>& find) {
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
