// SPDX-License-Identifier: Apache-2.0
// Stands in for the wing `measure` in builds that leave it out.
#include <array>

#include "absent/left_out.hpp"

namespace plansearch::cli {
namespace {

Command left_out(CLI::App& app, Options& /*options*/) {
  return bind_left_out(app, "measure");
}

}  // namespace

std::span<const CommandRow> measure_commands() {
  static constexpr std::array kRows{
      CommandRow{"fit", "a profile of your own machine: not in this build", Shares::Output,
                 left_out},
      CommandRow{"calibrate", "measure this machine: not in this build", Shares::Output, left_out},
      CommandRow{"tune", "trials of plans: not in this build", Shares::Output, left_out}};
  return kRows;
}

}  // namespace plansearch::cli
