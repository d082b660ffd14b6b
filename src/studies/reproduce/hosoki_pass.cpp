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

constexpr const char* kClosedForm =
    "blocking lists c (4 m + k), asynchronous sends 2 c ((p - 1) m / p + p - 2)";
constexpr double kPoints = 2.0;
constexpr double kMostOnNvlink = 3.0;

struct Machine {
  const char* name;
  const char* links;
  bool slow;  ///< stages talk over a network
};
constexpr std::array<Machine, 3> kMachines{{{"aws-p3-16xlarge", "25 Gb/s for eight GPUs", true},
                                            {"dgx-1-v100", "InfiniBand", true},
                                            {"gb200-nvl72", "NVLink", false}}};

ReproducedRow row(std::string check, std::string unit, double predicted, std::string source) {
  ReproducedRow made;
  made.check = std::move(check);
  made.unit = std::move(unit);
  made.predicted = predicted;
  made.source = std::move(source);
  return made;
}

void add(const Machine& machine, const PassGain& gain, std::vector<ReproducedRow>& rows) {
  const std::string name =
      fmt::format("{} ({}), {} stages", machine.name, machine.links, gain.stages);
  rows.push_back(row(name + ": message over forward, c/tF", "", gain.transfer_share,
                     "GPT-2 XL, fp16, batch 1,024, 64 GPUs"));
  const auto against_closed_form = [&](std::string what, double share) {
    rows.push_back(row(name + std::move(what), "%", 100.0 * share, kClosedForm));
    if (gain.transfer_share > 1.0) return;
    rows.back().low = 100.0 * gain.closed_form - kPoints;
    rows.back().high = 100.0 * gain.closed_form + kPoints;
  };
  against_closed_form(": gain of the pass, equal stages", gain.equal_gain);
  against_closed_form(": gain of the pass, its own stages", gain.gain);
  rows.push_back(row(name + ": gain of the pass, whole step", "%", 100.0 * gain.step_gain(),
                     machine.slow ? "reported" : "links of one NVLink domain"));
  rows.back().low = 0.0;
  if (!machine.slow) rows.back().high = kMostOnNvlink;
  rows.push_back(row(name + ": gain with free messages, equal stages", "%", 100.0 * gain.free_gain,
                     "nothing to hide"));
  rows.back().low = rows.back().high = 0.0;
  rows.push_back(row(name + ": gain with free messages, its own stages", "%",
                     100.0 * gain.free_own_gain, "unequal stages wait for each other to meet"));
}

}  // namespace

std::vector<ReproducedRow> hosoki_pass_rows(const StudyContext& context) {
  std::vector<ReproducedRow> rows;
  ReproducedRow published;
  published.check = "gain of the pass and a plan made with it, GPT-2 XL";
  published.unit = "%";
  published.published = 11.5;
  published.source = "Hosoki et al., IPSJ SIG-HPC 194 (2024), abstract; its cluster is not known";
  rows.push_back(published);
  for (const Machine& machine : kMachines) {
    for (const PassGain& gain : pass_gains({machine.name}, context.data)) add(machine, gain, rows);
  }
  return rows;
}

}  // namespace plansearch
