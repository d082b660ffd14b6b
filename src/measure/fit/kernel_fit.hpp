// SPDX-License-Identifier: Apache-2.0
// Rates of kernels and links of a machine, and their overlap, from its own measured times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/answer/site_population.hpp"
#include "io/tables/sample_file.hpp"
#include "measure/fit/curve_fit.hpp"
#include "measure/fit/fit_tables.hpp"
#include "plansearch/cluster.hpp"

namespace plansearch {

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

}  // namespace plansearch
