// SPDX-License-Identifier: Apache-2.0
// A measured step beside its prediction, and what would explain the difference.
#pragma once

#include <string>
#include <vector>

#include "plansearch/report.hpp"

namespace plansearch {

/// One thing that may be otherwise than the question says.
struct CauseReport {
  std::string what;         ///< "all operators run eagerly"
  std::string check;        ///< what shows whether it is so
  Seconds predicted;        ///< the step if it is so
  double likelihood = 0.0;  ///< after the measurement; all of them, normal and unknown add to 1
  bool fits = true;         ///< in memory, as predicted
};

struct DiagnosisReport {
  QuestionReport question;
  PlanReport plan;  ///< as the question says it, with p10 and p90
  Seconds measured;
  double faster_share = 0.0;  ///< of runs like this one that take less time, by the prediction
  double normal = 0.0;        ///< likelihood that nothing is wrong
  double unknown = 0.0;       ///< that it is none of the causes: what has no price here
  std::vector<CauseReport> causes;  ///< the likeliest first
};

[[nodiscard]] std::string render_diagnosis(const DiagnosisReport& report, Format format,
                                           int columns = 0);

}  // namespace plansearch
