// SPDX-License-Identifier: Apache-2.0
// Rates of kernels and links of a machine, and their overlap, from its own measured times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "evaluate/answer/site_population.hpp"
#include "measure/fit/fit_tables.hpp"
#include "measure/sample_file.hpp"
#include "plansearch/cluster.hpp"
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

/// One constant, or several that move together.
struct CurveChange {
  std::string part;      ///< "matmul bf16", "tier nvlink"
  std::string quantity;  ///< a constant of docs/hardware_profiles.md
  std::string unit;      ///< empty: a share
  double base = 0.0;
  double own = 0.0;
  double spread = 0.0;  ///< standard deviation of ln(own)
};

/// Logarithms of seconds.
struct SeenRow {
  double measured = 0.0;
  double predicted = 0.0;  ///< by the fit
};

/// Fit of one group of rows: a format of matrix products, or all collectives.
struct KernelGroupFit {
  std::string part;
  std::vector<std::string> files;
  std::size_t rows = 0;  ///< it rests on
  double scatter = 0.0;
  double error_before = 0.0;
  double error_after = 0.0;
  std::optional<HeldOut> held_out{};  ///< absent: too few rows, or very many
  std::vector<CurveChange> changes;
  std::vector<std::string> outliers;  ///< places of rows that contradict the others
  std::vector<SeenRow> seen{};        ///< the rows that it rests on
};

/// A sentence that the provenance of the profile and the report both have.
[[nodiscard]] std::string group_summary(const KernelGroupFit& group);

struct KernelFit {
  Cluster cluster;  ///< the base with what was fitted
  std::vector<KernelGroupFit> groups;
  std::vector<std::string> formats;       ///< of matrix products that were fitted, "bf16"
  std::vector<std::string> attentions{};  ///< kernels of attention that were fitted
  std::vector<std::string> tiers;         ///< that were fitted
  std::vector<std::string> unused;        ///< rows that could not be predicted, with the reason
};

/// Which constants of products follow from times. How long a call takes to start belongs to the
/// benchmark; a machine without a base has nothing else to know it from.
enum class Carried : std::uint8_t { Rates, WholeCurve };

/// Throws FitRefusal.
[[nodiscard]] KernelFit fit_kernels(const std::vector<KernelTable>& tables, const Cluster& base,
                                    const SitePopulation& population,
                                    Carried carried = Carried::Rates);

/// Adds a group "attention NAME forward" or "... backward" for each that tables hold. Rows without
/// a kernel are of the one that benchmarks of the accelerator are compared with. Throws FitRefusal.
void fit_attention(const std::vector<KernelTable>& tables, const SitePopulation& population,
                   Carried carried, KernelFit& fit);

/// Adds a group "stream" where a table holds passes. Throws FitRefusal.
void fit_streams(const std::vector<KernelTable>& tables, const SitePopulation& population,
                 Carried carried, KernelFit& fit);

/// Adds a group "collectives" where a table holds messages. Throws FitRefusal.
void fit_links(const std::vector<KernelTable>& tables, const SitePopulation& population,
               Carried carried, KernelFit& fit);

/// How far single messages scatter about the law of the base's links, once its constants are those
/// of the messages; nothing where they cannot be fitted.
[[nodiscard]] std::optional<double> link_error(const std::vector<KernelTable>& tables,
                                               const Cluster& base,
                                               const SitePopulation& population);

/// Adds a group "overlap" with the shares of every pair that was measured alone and together, and
/// sets the launch of graphs. Samples of other probes are passed over.
void fit_overlap(const std::vector<io::Sample>& samples, KernelFit& fit);

/// "  concurrency: {...}" of an accelerator; empty where nothing was measured.
[[nodiscard]] std::string concurrency_section(const KernelFit& fit);

/// Tenth and ninetieth percentile of a normal distribution in standard deviations.
inline constexpr double kTenth = 1.2816;
inline constexpr double kLeastScatter = 0.05;
/// Times so far from what is predicted are another accelerator's, or in other units.
inline constexpr double kOtherKernels = 2.0;
inline constexpr double kOtherLinks = 10.0;

/// Constants of a curve that rows move.
struct GroupProblem {
  std::string part;
  const KernelSample& sample;
  std::size_t parameters = 0;
  std::function<Cluster(std::span<const double>)> apply;  ///< the base with its constants moved
  double usual = 0.0;                                     ///< scatter of a row
  double between = 0.0;                                   ///< spread between machines
  double other = 0.0;  ///< the ratio of times from which they are another machine's
  Carried carried = Carried::Rates;
};

struct GroupFit {
  CurveFit curve;
  KernelGroupFit group;  ///< without its changes
};

/// Throws FitRefusal.
[[nodiscard]] GroupFit fit_group(const GroupProblem& problem);

/// Shares of what the data sheet promises end at all of it.
[[nodiscard]] double moved_share(double base, double log);
[[nodiscard]] double usual_scatter(const std::optional<Residual>& residual, const Cluster& base);
/// Rows that scatter widely widen the residual of their curve.
void widen(std::optional<Residual>& residual, double scatter, double usual);

/// Tables by collective and ranks for the innermost tier, with the error of sizes left out; false
/// where none has three sizes inside one node.
[[nodiscard]] bool keep_measured_times(const std::vector<KernelTable>& tables, KernelFit& fit);

}  // namespace plansearch
