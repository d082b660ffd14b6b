// SPDX-License-Identifier: Apache-2.0
// Probes of a machine: one row per class of operation, with the points of its sweep.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/kernels/kernel_shape.hpp"
#include "measure/calibrate/processes/processes.hpp"
#include "measure/sample_file.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch::calibrate {

struct Point {
  std::string_view probe;
  io::SampleCells cells;

  [[nodiscard]] double number(std::string_view name) const { return io::number_in(cells, name); }
  [[nodiscard]] std::string word(std::string_view name) const { return io::word_in(cells, name); }
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

/// Cells dtype, layout (nn forward, nt input gradient, tn weight gradient), m, n, k: rows and
/// columns of the result, depth of the sum.
[[nodiscard]] std::vector<Point> gemm_points(const Grid& grid);
/// The same with batch.
[[nodiscard]] std::vector<Point> batched_gemm_points(const Grid& grid);
[[nodiscard]] Work gemm_work(const Point& point);

/// Cells pass, bytes: read and written together.
[[nodiscard]] std::vector<Point> stream_points(const Grid& grid);
[[nodiscard]] Work stream_work(const Point& point);

/// Cells direction (to_device, from_device), bytes.
[[nodiscard]] std::vector<Point> host_copy_points(const Grid& grid);
[[nodiscard]] Work host_copy_work(const Point& point);

/// Cells collective, ranks, nodes, bytes (as nccl-tests counts them); where they are not one and
/// all, stride (between members of a group) and groups (one: the others rest).
[[nodiscard]] std::vector<Point> collective_points(const Grid& grid);
[[nodiscard]] Work collective_work(const Point& point);
[[nodiscard]] MessageGroup message_group(const Point& point);

/// Cells direction (forward, backward), mask (causal), dtype, batch, seq_len, heads, kv_heads,
/// head_dim. Fused attention of a sequence on itself.
[[nodiscard]] std::vector<Point> attention_points(const Grid& grid);
[[nodiscard]] Work attention_work(const Point& point);
[[nodiscard]] AttentionShape attention_shape(const Point& point);

/// Cell kernel: stream (one after the other), graph (captured).
[[nodiscard]] std::vector<Point> launch_points(const Grid& grid);
[[nodiscard]] Work launch_work(const Point& point);

/// Cells timed, beside: gemm, to_device, from_device, all_reduce; beside nothing, timed is alone.
[[nodiscard]] std::vector<Point> overlap_points(const Grid& grid);
[[nodiscard]] Work overlap_work(const Point& point);
/// The points of other probes that one of overlap runs together; the second is absent for one
/// alone.
struct OverlapParts {
  Point timed;
  std::optional<Point> beside;
};
[[nodiscard]] OverlapParts overlap_parts(const Point& point);

/// Arrays that a pass over memory reads and writes.
struct StreamPass {
  std::string_view name;
  int reads;
  int writes;
  /// Arrays that are updated in place are not read elsewhere.
  [[nodiscard]] int only_read() const { return reads > 2 ? reads - writes : reads; }
};
/// The pass of a point. Unmeasurable where its name is unknown.
[[nodiscard]] const StreamPass& stream_pass(const Point& point);

/// Bytes of one element of a format of products; 4 where it is unknown.
[[nodiscard]] double element_bytes(std::string_view format);

}  // namespace plansearch::calibrate
