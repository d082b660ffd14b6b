// SPDX-License-Identifier: Apache-2.0
// Stands in for the wing `evidence` in builds that leave it out.
#include <array>

#include "absent/left_out.hpp"

namespace plansearch::cli {
std::span<const CommandRow> evidence_commands() {
  static constexpr std::array kRows{
      CommandRow{"validate", "predict measured rows: not in this build", Shares::Output,
                 left_out<Wing::Evidence>},
      CommandRow{"reproduce", "published figures beside ours: not in this build", Shares::Output,
                 left_out<Wing::Evidence>},
      CommandRow{"bench", "speed of this build: not in this build", Shares::Output,
                 left_out<Wing::Evidence>}};
  return kRows;
}

}  // namespace plansearch::cli
