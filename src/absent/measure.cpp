// SPDX-License-Identifier: Apache-2.0
// Stands in for the wing `measure` in builds that leave it out.
#include <array>

#include "absent/left_out.hpp"

namespace plansearch::cli {
std::span<const CommandRow> measure_commands() {
  static constexpr std::array kRows{
      CommandRow{"fit", "a profile of your own machine: not in this build", Shares::Output,
                 left_out<Wing::Measure>},
      CommandRow{"calibrate", "measure this machine: not in this build", Shares::Output,
                 left_out<Wing::Measure>},
      CommandRow{"tune", "trials of plans: not in this build", Shares::Output,
                 left_out<Wing::Measure>}};
  return kRows;
}

}  // namespace plansearch::cli
