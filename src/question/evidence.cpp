// SPDX-License-Identifier: Apache-2.0
#include "question/evidence.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "report/plan_cells.hpp"

namespace plansearch {
namespace {

std::string counts_text(const std::array<int, 4>& counts) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) {
      parts.push_back(fmt::format("{} {}", counts[i], to_text(static_cast<Evidence>(i))));
    }
  }
  return parts.empty() ? "nothing stated" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::vector<std::string> evidence_of(const Problem& problem) {
  const Cluster& cluster = *problem.cluster;
  const Framework& framework = *problem.framework;
  std::array<int, 4> of_framework{};
  for (const auto& [key, from] : framework.provenance) {
    ++of_framework[static_cast<std::size_t>(from.evidence)];
  }
  return {fmt::format("profile {} ({})", cluster.name, counts_text(count_evidence(cluster))),
          fmt::format(
              "framework {} ({}{})", framework.name, counts_text(of_framework),
              framework.validation.empty() ? "; unvalidated: no measured step was compared" : ""),
          fmt::format("site {} ({})", problem.site.name, problem.site.basis)};
}

std::string evidence_line(const Problem& problem) {
  return evidence_text(evidence_of(problem));
}

}  // namespace plansearch
