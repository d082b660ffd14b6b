// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "answer/make_report.hpp"
#include "base/overrides.hpp"
#include "base/parallel.hpp"
#include "io/document/name_resolver.hpp"
#include "plansearch/error.hpp"
#include "plansearch/evaluator.hpp"
#include "question/chosen.hpp"
#include "question/framework_flags.hpp"

namespace plansearch {
namespace {

using io::FileQuantity;

struct Price {
  Seconds step;
  Bytes memory;
};

Price price_of(const Problem& problem, const ParallelPlan& plan) {
  const PlanEvaluator evaluator(problem);
  const Evaluation evaluation = evaluator.evaluate(plan);
  const Estimate& estimate = estimate_of(evaluation);
  return {estimate.step.total(), estimate.memory.total()};
}

/// The statement about the longest part of a path.
std::optional<Evidence> evidence_of(const ProvenanceMap& provenance, std::string path) {
  while (!path.empty()) {
    const auto found = provenance.find(path);
    if (found != provenance.end()) return found->second.evidence;
    const std::size_t dot = path.rfind('.');
    path = dot == std::string::npos ? "" : path.substr(0, dot);
  }
  return std::nullopt;
}

std::optional<Evidence> evidence_of(const std::string& key, const Problem& problem) {
  const auto below = [&](std::string_view root) {
    return key.starts_with(root) ? std::optional(key.substr(root.size())) : std::nullopt;
  };
  if (const auto path = below("framework."))
    return evidence_of(problem.framework->provenance, *path);
  if (const auto path = below("accelerator."))
    return evidence_of(problem.cluster->accelerator.provenance, *path);
  for (const LinkTier& tier : problem.cluster->tiers) {
    const auto path = below(fmt::format("tiers.{}.", tier.name));
    if (!path) continue;
    const bool curve = path->starts_with("link.") || path->starts_with("fabric.");
    return evidence_of(tier.provenance, curve ? "curve" : *path);
  }
  return evidence_of(problem.cluster->provenance, key);
}

/// As the question names it, which may be a file, else the one that was taken.
std::string named_framework(const ResolvedQuestion& asked, const Problem& problem) {
  const Chosen<std::string> named = framework_name(asked.request);
  return named.origin() == "default" ? problem.framework->name : named.value();
}

std::vector<FileQuantity> quantities(const ResolvedQuestion& asked, const Problem& problem) {
  const std::string set = asked.request.set.value_or("");
  const std::filesystem::path directory = shipped_data().directory();
  const std::array hardware{directory / "hardware_profiles"};
  const std::array frameworks{directory / "frameworks"};
  std::vector<FileQuantity> all =
      io::cluster_quantities(asked.request.hardware, hardware,
                             overrides_of(set, OverriddenFile::Hardware), *problem.cluster);
  for (FileQuantity& one : io::framework_quantities(named_framework(asked, problem), frameworks,
                                                    overrides_of(set, OverriddenFile::Framework))) {
    all.push_back(std::move(one));
  }
  return all;
}

/// The values that the question sets already, but for this path.
std::string without_value(const std::string& set, const FileQuantity& one) {
  std::string text;
  for (const Override& other : parse_overrides(set)) {
    const std::string typed = other.typed.substr(std::string_view("--set ").size());
    if (typed.substr(0, typed.find('=')) != one.path) text += typed + "; ";
  }
  return text;
}

/// The price with changed files: the machine and the framework change, the network stays.
std::optional<Price> changed_price(const ResolvedQuestion& asked, const Problem& problem,
                                   const ParallelPlan& plan, const std::string& set) {
  try {
    ProblemRequest request = asked.request;
    request.set = set;
    const Problem other = load_problem(request).problem;
    Problem changed = problem;
    changed.cluster = other.cluster;
    changed.framework = other.framework;
    return price_of(changed, plan);
  } catch (const InputError&) {
    return std::nullopt;  // said to the user: the value cannot be changed alone
  }
}

}  // namespace

SensitivityReport sensitivity_of(const ResolvedQuestion& asked, const Problem& problem,
                                 const ParallelPlan& plan, int threads) {
  SensitivityReport report;
  const std::vector<FileQuantity> values = quantities(asked, problem);
  const std::string set = asked.request.set.value_or("");
  const Price before = price_of(problem, plan);
  std::vector<std::optional<Price>> after(values.size());
  constexpr double kNothing = 1e-6;  // curves are written with six digits
  parallel_for(values.size(), threads, [&](std::size_t i) {
    after[i] = changed_price(asked, problem, plan,
                             without_value(set, values[i]) + values[i].set(report.factor));
  });
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!after[i]) {
      report.refused.push_back(values[i].key);
      continue;
    }
    SensitivityRow row{values[i].key, values[i].value, evidence_of(values[i].key, problem),
                       after[i]->step / before.step - 1.0, after[i]->memory - before.memory};
    if (std::abs(row.step_change) < kNothing && row.memory_change == Bytes(0)) {
      ++report.without_effect;
    } else {
      report.rows.push_back(std::move(row));
    }
  }
  std::ranges::stable_sort(report.rows, [](const auto& a, const auto& b) {
    return std::abs(a.step_change) > std::abs(b.step_change);
  });
  return report;
}

}  // namespace plansearch
