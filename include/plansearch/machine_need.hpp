// SPDX-License-Identifier: Apache-2.0
// Demands of software on a machine.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plansearch/data_type.hpp"

namespace plansearch {

/// One condition and who states it. A field that is absent or empty asks for nothing.
struct MachineNeed {
  std::vector<std::string> links{};    ///< the tier of links inside a node has one of these names
  std::vector<std::string> fabrics{};  ///< the tier that leaves it, where there is one
  std::optional<int> most_linked{};    ///< accelerators that links without network cards join
  std::optional<DataType> format{};    ///< that matrix engines of the accelerator have
  std::string message{};  ///< of the software that refuses other machines, with its file
  bool operator==(const MachineNeed&) const = default;
};

}  // namespace plansearch
