// SPDX-License-Identifier: Apache-2.0
// A few factors on the constants of a curve, from measured times, shrunk towards none.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "evaluate/answer/site_population.hpp"
#include "plansearch/kernel_curves.hpp"

namespace plansearch {

struct CurveProblem {
  std::size_t parameters = 0;
  /// ln of the predicted time of every row when ln of every parameter is moved by so much.
  std::function<std::vector<double>(std::span<const double>)> predict;
  std::vector<double> measured;  ///< ln of the measured times
  double usual = 0.0;            ///< scatter of a row about a curve that fits
  double between = 0.0;          ///< between-machine spread; a less certain fit is rejected
  /// Weight of "no change", in squared logarithms of rows; that of a base that is like the machine
  /// unless the start is a guess.
  double prior = kPriorRuns;
};

struct CurveFit {
  std::vector<double> moved;   ///< of ln of every parameter
  std::vector<double> spread;  ///< standard deviation of the same
  std::vector<std::size_t> kept;
  std::vector<std::size_t> outliers;  ///< rows that contradict the others
  double scatter = 0.0;               ///< of a row about the fitted curve
  double error_before = 0.0;          ///< median |ln(predicted / measured)| of the kept rows
  double error_after = 0.0;
};

struct CurveFitRefusal {
  std::string reason;
  std::vector<std::size_t> outliers;
};

/// "2 rows: a fit needs 3"; `which` stands behind the rows, such as " that agree".
[[nodiscard]] std::string too_few_rows(std::size_t rows, std::string_view which = "");

/// Refused below three rows that agree, and where a row of usual shape would be known no better
/// than what machines differ by.
[[nodiscard]] std::variant<CurveFit, CurveFitRefusal> fit_curve(const CurveProblem& problem);

struct HeldOut {
  double error = 0.0;  ///< median |ln(measured / predicted)|
  Residual residual;   ///< quantiles of ln(measured / predicted)
};

/// Each of the kept rows as fits to four fifths of them predict it. Nothing for fewer than ten
/// rows, for more than a thousand (which no few decide), and where a part has no fit.
[[nodiscard]] std::optional<HeldOut> held_out(const CurveProblem& problem,
                                              std::span<const std::size_t> kept);

}  // namespace plansearch
