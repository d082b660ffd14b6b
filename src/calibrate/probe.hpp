// SPDX-License-Identifier: Apache-2.0
// Probes of a machine: one row per class of operation, with the points of its sweep.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/kernels/kernel_shape.hpp"
#include "io/sample_file.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch::calibrate {

struct Point {
  std::string_view probe;
  io::SampleCells cells;

  /// 1 where the point has no such cell.
  [[nodiscard]] double number(std::string_view name) const;
  /// Empty where the point has no such cell.
  [[nodiscard]] std::string word(std::string_view name) const;
  [[nodiscard]] std::string key() const { return io::sample_key(probe, cells); }
};

/// Work of one call, from which its time is estimated.
struct Work {
  double flops = 0.0;
  double bytes = 0.0;      ///< through memory, or over links
  double footprint = 0.0;  ///< bytes of all operands
};

/// How far the points of a sweep go.
struct Grid {
  bool quick = false;
  double most_flops = 0.0;           ///< of one call
  double most_bytes = 0.0;           ///< of the operands of one call
  std::vector<std::string> formats;  ///< of products
  std::vector<MatmulShape> shapes;   ///< that models multiply, beside the sweep
  int ranks = 1;
  int ranks_of_node = 1;
};

struct Probe {
  std::string_view name;
  std::string_view help;
  std::vector<Point> (*points)(const Grid& grid);
  Work (*work)(const Point& point);
};

/// Every probe, in the order of lists.
[[nodiscard]] std::span<const Probe> probes();
/// InputError for an unknown name.
[[nodiscard]] const Probe& probe_named(std::string_view name);

/// Forward products of one sequence, whole and cut over 2, 4 and 8 ranks of a tensor group, each
/// shape once. InputError for unknown models.
[[nodiscard]] std::vector<MatmulShape> model_shapes(const std::vector<std::string>& models,
                                                    const ShippedData& data);

}  // namespace plansearch::calibrate
