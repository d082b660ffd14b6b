// SPDX-License-Identifier: Apache-2.0
// One machine, network and framework, of which many plans are priced: files are read once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plansearch/load_problem.hpp"
#include "plansearch/switch_priors.hpp"

namespace plansearch::python {

/// Pairs of a degree's key and its value as text, such as ("tp", "8").
using SpelledDegrees = std::vector<std::pair<std::string, std::string>>;

/// May be used by several threads at once.
class Question {
 public:
  /// The flags of `plansearch predict`; degrees among them hold for every plan.
  explicit Question(const std::vector<std::string>& words);

  /// The answer of `plansearch predict --format json` to these degrees and the question's own,
  /// without remedies where the plan does not fit. InputError for a plan that is not legal.
  [[nodiscard]] std::string predict(const SpelledDegrees& degrees) const;

 private:
  ProblemRequest request_;
  ProblemFiles files_;
  SwitchPriors priors_;  ///< of what degrees leave out
};

}  // namespace plansearch::python
