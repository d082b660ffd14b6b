// SPDX-License-Identifier: Apache-2.0
// A simulated program as a few lines of text: one row per device, one column per slot of time.
//
//   stage 0  | 00112233...a..b..c..d~^
//     sends  | ...>>>>>>>>............
//
// 0-9 forward of a micro-batch, a-j backward, = weight gradient, ~ reductions, ^ optimizer; of the
// messages on their way > activations, < gradients.
#pragma once

#include <string>

#include "schedule/simulation/simulated_program.hpp"

namespace plansearch {

enum class PictureOf : std::uint8_t {
  Pipeline,  ///< pieces only
  Step,      ///< messages, reductions and optimizers too
};

struct PictureWindow {
  Ticks from = 0;
  Ticks to = 0;
  int columns = 88;
  int most_devices = 16;  ///< of more, evenly chosen ones
  PictureOf of = PictureOf::Pipeline;
};

/// What runs in the middle of each column.
[[nodiscard]] std::string draw_program(const SimulatedProgram& simulated,
                                       const PictureWindow& window);

}  // namespace plansearch
