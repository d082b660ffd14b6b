// SPDX-License-Identifier: Apache-2.0
// Computes: factors on the constants of a curve that bring its times to measured ones.
// Source: least squares in logarithms with a normal prior at "no change" (ridge), by Gauss-Newton
//         with differences, from the best of a coarse scan of each parameter. The prior weighs
//         kPriorRuns rows of usual scatter, as that of a site does: one factor on k rows moves by k
//         / (k + 1/2) of their mean; a start that is a guess weighs less. Rows that scatter s times
//         more than usual weigh s^2 less. A parameter on which no row depends stays.
// Assumes: log-normal scatter; rows further than six robust standard deviations from the median,
//          about a robust fit (Huber), stay out of it (as in evidence/validate/site_fit).
// Units: logarithms of ratios.
// Checked by: tests/unit/measure/fit/curve_fit_test.cpp
//
// Computes: errors of a fit on rows left out of it.
// Source: five-fold cross-validation.
// Assumes: rows lie in no order that repeats every five.
// Units: logarithms of ratios.
// Checked by: tests/unit/measure/fit/held_out_test.cpp
#include "measure/fit/kernel_fit.hpp"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>

#include "base/ranges.hpp"
#include "evidence/evidence.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

constexpr int kSteps = 12;
constexpr int kRounds = 3;
constexpr double kDifference = 0.01;
constexpr double kLongestStep = 0.5;
constexpr double kFarthest = 1.6;
constexpr double kScanned = 0.2;

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

/// Residual of every row at a point, and how rows depend on the parameters there.
struct Point {
  std::vector<double> at;
  std::vector<double> left;  ///< ln(measured / predicted), all rows
};

class Descent {
 public:
  /// Beyond `linear` a row counts with its distance, not with its square (Huber).
  Descent(const CurveProblem& problem, const std::vector<std::size_t>& kept, double prior,
          double linear)
      : problem_(problem), kept_(kept), prior_(prior), linear_(linear) {
    move_to(std::vector<double>(problem.parameters, 0.0));
  }

  void run() {
    // A link that does not bind at the start has no slope there.
    for (std::size_t i = 0; i < problem_.parameters; ++i) scan(i);
    for (int step = 0; step < kSteps; ++step) {
      const Normal normal = normal_equations();
      const Vector direction = normal.curvature.llt().solve(normal.slope);
      const double longest = direction.lpNorm<Eigen::Infinity>();
      if (longest < 1e-6 || !descend(direction, std::min(1.0, kLongestStep / longest))) return;
    }
  }

  [[nodiscard]] const Point& point() const { return point_; }
  /// Standard deviation of every parameter for rows that scatter by 1.
  [[nodiscard]] Vector spread() {
    const Matrix curvature = normal_equations().curvature;
    const Matrix none = Matrix::Identity(curvature.rows(), curvature.cols());
    return curvature.llt().solve(none).diagonal().cwiseSqrt();
  }

 private:
  void move_to(std::vector<double> at) {
    check_stop();
    point_.left = problem_.predict(at);
    for (std::size_t row = 0; row < point_.left.size(); ++row) {
      point_.left[row] = problem_.measured[row] - point_.left[row];
    }
    point_.at = std::move(at);
    value_ = 0.0;
    for (const std::size_t row : kept_) {
      const double left = std::abs(point_.left[row]);
      value_ += left <= linear_ ? left * left : linear_ * (2.0 * left - linear_);
    }
    for (const double moved : point_.at) value_ += prior_ * moved * moved;
  }

  /// The best of a few values of one parameter.
  void scan(std::size_t parameter) {
    for (double value = -kFarthest; value <= kFarthest; value += kScanned) {
      const Point before = point_;
      const double lowest = value_;
      std::vector<double> at = before.at;
      at[parameter] = value;
      move_to(std::move(at));
      if (value_ < lowest) continue;
      point_ = before;
      value_ = lowest;
    }
  }

  bool descend(const Vector& direction, double length) {
    const Point before = point_;
    const double value = value_;
    for (int halving = 0; halving < 6; ++halving, length *= 0.5) {
      std::vector<double> at = before.at;
      Eigen::Map<Vector>(at.data(), direction.size()) += length * direction;
      move_to(std::move(at));
      if (value_ < value) return true;
    }
    point_ = before;
    value_ = value;
    return false;
  }

  /// Second derivatives and downward slope of half the sum of squares at a point.
  struct Normal {
    Matrix curvature;
    Vector slope;
  };
  [[nodiscard]] Normal normal_equations() const {
    const auto parameters = static_cast<Eigen::Index>(problem_.parameters);
    const auto rows = static_cast<Eigen::Index>(kept_.size());
    Matrix slopes(rows, parameters);  // of the prediction
    Vector weights(rows), left(rows);
    for (Eigen::Index row = 0; row < rows; ++row) {
      const auto kept = static_cast<std::size_t>(row);
      weights[row] = weight(kept);
      left[row] = point_.left[kept_[kept]];
    }
    for (Eigen::Index i = 0; i < parameters; ++i) {
      check_stop();
      std::vector<double> at = point_.at;
      at[static_cast<std::size_t>(i)] += kDifference;
      const std::vector<double> moved = problem_.predict(at);
      for (Eigen::Index row = 0; row < rows; ++row) {
        const std::size_t kept = kept_[static_cast<std::size_t>(row)];
        const double here = problem_.measured[kept] - point_.left[kept];
        slopes(row, i) = (moved[kept] - here) / kDifference;
      }
    }
    const Matrix weighted = weights.asDiagonal() * slopes;
    const Eigen::Map<const Vector> at(point_.at.data(), parameters);
    return {slopes.transpose() * weighted + prior_ * Matrix::Identity(parameters, parameters),
            weighted.transpose() * left - prior_ * at};
  }

  [[nodiscard]] double weight(std::size_t row) const {
    const double left = std::abs(point_.left[kept_[row]]);
    return left <= linear_ ? 1.0 : linear_ / left;
  }

  const CurveProblem& problem_;
  const std::vector<std::size_t>& kept_;
  double prior_;
  double linear_;
  Point point_;
  double value_ = 0.0;
};

void split_outliers(const std::vector<double>& left, double usual, CurveFit& fit) {
  constexpr double kOutlier = 6.0;
  const Scatter scatter = scatter_of(left);
  const double robust = std::max(scatter.deviation, usual);
  fit.kept.clear();
  fit.outliers.clear();
  for (std::size_t row = 0; row < left.size(); ++row) {
    (scatter.distances[row] > kOutlier * robust ? fit.outliers : fit.kept).push_back(row);
  }
}

/// Residuals of the rows in a fit that no few of them decide: they show which rows contradict.
std::vector<double> roughly_fitted(const CurveProblem& problem) {
  constexpr double kRoughPrior = 0.05;
  constexpr double kLinear = 3.0;
  std::vector<std::size_t> all;
  for (std::size_t row = 0; row < problem.measured.size(); ++row) all.push_back(row);
  Descent descent(problem, all, std::min(kRoughPrior, problem.prior), kLinear * problem.usual);
  descent.run();
  return descent.point().left;
}

double median_error(const std::vector<double>& left, const std::vector<std::size_t>& kept) {
  std::vector<double> errors;
  for (const std::size_t row : kept) errors.push_back(std::abs(left[row]));
  return median(std::move(errors));
}

/// With that of one row of usual scatter, as few rows do not know it.
double scatter_of(const std::vector<double>& left, const CurveFit& fit, double usual) {
  double squares = usual * usual;
  for (const std::size_t row : fit.kept) squares += left[row] * left[row];
  return std::sqrt(squares / static_cast<double>(fit.kept.size()));
}

constexpr std::size_t kFolds = 5;
constexpr std::size_t kFewest = 10;
constexpr std::size_t kMost = 1000;

/// The problem of some of its rows.
CurveProblem part_of(const CurveProblem& whole, std::vector<std::size_t> rows) {
  CurveProblem part = whole;
  part.measured.clear();
  for (const std::size_t row : rows) part.measured.push_back(whole.measured[row]);
  part.predict = [&whole, rows = std::move(rows)](std::span<const double> logs) {
    const std::vector<double> all = whole.predict(logs);
    return transformed(rows, [&](const std::size_t row) { return all[row]; });
  };
  return part;
}

}  // namespace

std::string too_few_rows(std::size_t rows, std::string_view which) {
  return fmt::format("{} row{}{}: a fit needs {}", rows, rows == 1 ? "" : "s", which, kFewestRuns);
}

std::variant<CurveFit, CurveFitRefusal> fit_curve(const CurveProblem& problem) {
  if (problem.measured.size() < kFewestRuns) {
    return CurveFitRefusal{too_few_rows(problem.measured.size()), {}};
  }
  CurveFit fit;
  Point unchanged = {std::vector<double>(problem.parameters, 0.0), {}};
  unchanged.left = problem.predict(unchanged.at);
  for (std::size_t row = 0; row < unchanged.left.size(); ++row) {
    unchanged.left[row] = problem.measured[row] - unchanged.left[row];
  }
  std::vector<double> left = roughly_fitted(problem);
  double noise = 1.0;  // scatter of the rows over the usual
  for (int round = 0; round < kRounds; ++round) {
    split_outliers(left, problem.usual, fit);
    if (fit.kept.size() < kFewestRuns) {
      return CurveFitRefusal{too_few_rows(fit.kept.size(), " that agree"), fit.outliers};
    }
    Descent descent(problem, fit.kept, problem.prior * noise * noise, HUGE_VAL);
    descent.run();
    left = descent.point().left;
    fit.moved = descent.point().at;
    fit.scatter = scatter_of(left, fit, problem.usual);
    if (round == 0) noise = std::max(1.0, fit.scatter / problem.usual);
    const Vector spread = fit.scatter * descent.spread();
    fit.spread.assign(spread.begin(), spread.end());
  }
  fit.error_before = median_error(unchanged.left, fit.kept);
  fit.error_after = median_error(left, fit.kept);
  const double known = fit.scatter / std::sqrt(static_cast<double>(fit.kept.size()));
  if (known >= problem.between) {
    return CurveFitRefusal{
        fmt::format("the rows scatter by {:.0f} %: their curve would be known to {:.0f} %, no "
                    "better than what sites differ by ({:.0f} %)",
                    100.0 * fit.scatter, 100.0 * known, 100.0 * problem.between),
        fit.outliers};
  }
  return fit;
}

std::optional<HeldOut> held_out(const CurveProblem& problem, std::span<const std::size_t> kept) {
  if (kept.size() < kFewest || kept.size() > kMost) return std::nullopt;
  std::vector<double> left;
  for (std::size_t fold = 0; fold < kFolds; ++fold) {
    std::vector<std::size_t> seen;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (i % kFolds != fold) seen.push_back(kept[i]);
    }
    const auto found = fit_curve(part_of(problem, std::move(seen)));
    const auto* fit = std::get_if<CurveFit>(&found);
    if (fit == nullptr) return std::nullopt;
    const std::vector<double> predicted = problem.predict(fit->moved);
    for (std::size_t i = fold; i < kept.size(); i += kFolds) {
      left.push_back(problem.measured[kept[i]] - predicted[kept[i]]);
    }
  }
  std::ranges::sort(left);
  std::vector<double> errors = transformed(left, [&](const double log) { return std::abs(log); });
  return HeldOut{median(errors), {quantile(left, 0.1), quantile(left, 0.5), quantile(left, 0.9)}};
}

}  // namespace plansearch
