// SPDX-License-Identifier: Apache-2.0
// The communication-timing pass on fixed plans of GPT-2 XL. Its authors publish one figure, of the
// pass and a plan made with it, on a cluster that is not named: it is printed, nothing is fitted to
// it. The bands are the closed forms of equal stages, 2 points to both sides.
#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "studies/reproduce/pass_gain.hpp"
#include "studies/reproduce/reproduce.hpp"

namespace plansearch {
namespace {

constexpr double kPoints = 2.0;

struct Machine {
  const char* name;
  const char* links;
  bool slow;  ///< stages talk over a network
};
constexpr std::array<Machine, 3> kMachines{{{"aws-p3-16xlarge", "25 Gb/s for eight GPUs", true},
                                            {"dgx-1-v100", "InfiniBand", true},
                                            {"gb200-nvl72", "NVLink", false}}};

void add(const Machine& machine, const PassGain& gain, Figures& figures) {
  const std::vector<std::string> words{
      fmt::format("{} ({}), {} stages", machine.name, machine.links, gain.stages)};
  figures.add("message over forward", gain.transfer_share, words);
  for (const auto& [id, share] :
       {std::pair{"equal stages", gain.equal_gain}, {"own stages", gain.gain}}) {
    ReproducedRow& row = figures.add(id, 100.0 * share, words);
    if (gain.transfer_share > 1.0) continue;
    row.low = 100.0 * gain.closed_form - kPoints;
    row.high = 100.0 * gain.closed_form + kPoints;
  }
  figures.add(machine.slow ? "whole step" : "whole step, NVLink", 100.0 * gain.step_gain(), words);
  figures.add("free messages, equal stages", 100.0 * gain.free_gain, words);
  figures.add("free messages, own stages", 100.0 * gain.free_own_gain, words);
}

}  // namespace

void add_hosoki_pass(const StudyContext& context, Figures& figures) {
  figures.add("pass", std::nullopt);
  for (const Machine& machine : kMachines) {
    for (const PassGain& gain : pass_gains({machine.name}, context.data)) {
      add(machine, gain, figures);
    }
  }
}

}  // namespace plansearch
