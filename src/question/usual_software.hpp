// SPDX-License-Identifier: Apache-2.0
// Frameworks as they run on a chip, where the question does not say otherwise.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/chip_software.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/chosen.hpp"

namespace plansearch {

[[nodiscard]] ChipSoftwareTable chip_software(const ShippedData& data);

/// The framework of a question: as it is named, else the chip's own, else the one that networks of
/// images and graphs are trained with, else the default.
[[nodiscard]] Framework asked_framework(const ProblemRequest& request, const ShippedData& data,
                                        std::string_view accelerator, StackKind stack);

/// The targets of adapters that a program has, where it takes lists of modules of its own only; none
/// where it takes any, or plans are not exported to it.
[[nodiscard]] std::vector<std::string> adapter_targets_of(const std::string& program);
/// Whether the program freezes the tower of a model unless it is told to train it.
[[nodiscard]] bool freezes_towers(const std::string& program);

/// Ends the name of a framework as if it ran every plan that the framework `any` runs.
inline constexpr char kWiderSuffix = '+';

/// The software of a framework with every plan that the widest one runs.
[[nodiscard]] Framework widened(Framework own, const Framework& widest);

/// The framework of that name, or as if it ran every plan (kWiderSuffix): its release for the chip, with the attention kernel that takes the
/// place of an older one there. `chip` may be absent.
[[nodiscard]] Framework usual_framework(const std::string& name, const ChipSoftware* chip,
                                        const std::function<Framework(std::string_view)>& find);

}  // namespace plansearch
