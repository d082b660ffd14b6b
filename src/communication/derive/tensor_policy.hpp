// SPDX-License-Identifier: Apache-2.0
// Where a tensor lives versus where it is used. ZeRO, FSDP, hybrid shard and AxoNN's z axis are
// settings of these policies; gathers and reductions follow from storage, use and what backward
// produced.
#pragma once

#include <cstdint>
#include <optional>

#include "plansearch/axis.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/network.hpp"

namespace plansearch {

/// The local tile, flattened and cut over groups of axes, outermost first. The axes of one group
/// act as one process group (data and context parallel ranks shard one optimizer together).
using FlatCut = FixedVector<AxisSet, 3>;

/// The tensor is stored in the operator's own layout with a flat cut on top, and used in the layout
/// itself.
struct TensorPolicy {
  FlatCut storage;
  int pieces = 1;                    ///< number of pieces of that cut
  Scope gather = Scope::Use;         ///< how often storage becomes use
  Scope reduce = Scope::MicroBatch;  ///< how often what was produced becomes storage
  std::optional<DataType> dtype;     ///< absent: the tensor is not kept
  bool on_host = false;              ///< in memory of the host
  bool operator==(const TensorPolicy&) const = default;
};

/// Everything an optimizer keeps of one parameter.
struct ParameterPolicy {
  TensorPolicy parameter;
  TensorPolicy gradient;
  TensorPolicy main_gradient;
  TensorPolicy master;
  TensorPolicy moment;
  AxisSet data;  ///< axes over which gradients of replicas are summed in one go
  std::optional<DataType> host_sum{};  ///< of gradients there; absent: as on the device
  bool updated_in_backward = false;    ///< gradients are freed as they are used
  double quantised_wire = 1.0;  ///< bytes of a quantised weight in a gather over those of others
  bool operator==(const ParameterPolicy&) const = default;
};

struct TensorPolicies {
  ParameterPolicy dense;
  ParameterPolicy expert;  ///< parameters with an Expert dimension, on the expert grid
  const MatrixUpdates* updates = nullptr;  ///< see matrix_updates
  bool operator==(const TensorPolicies&) const = default;
};

/// Whether the depth axis cuts a parameter of this operator, or holds copies of it.
[[nodiscard]] bool depth_cuts(const Network& network, const Block& block, const Operator& op,
                              ParameterId parameter, const ShardingRules& rules);

/// Whether a weight that is not trained may be kept in PrecisionPolicy::quantised.
[[nodiscard]] bool is_quantisable(const Network& network, const Block& block, const Operator& op,
                                  ParameterId parameter);
/// The format in which a weight that is not trained is kept.
[[nodiscard]] DataType frozen_format(const Network& network, const Block& block, const Operator& op,
                                     ParameterId parameter, const PrecisionPolicy& formats);

/// The rule by which the optimizer updates whole matrices; null: it updates every element by
/// itself.
[[nodiscard]] const MatrixUpdates* matrix_updates(const Framework& framework);

/// The matrices of a weight that an optimizer updates as such: bits of the parameter's dimensions.
/// Those that are neither count matrices (experts).
struct MatrixDims {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  [[nodiscard]] bool is_row(std::size_t dim) const { return (rows >> dim & 1U) != 0; }
  [[nodiscard]] bool is_column(std::size_t dim) const { return (columns >> dim & 1U) != 0; }
};
/// Absent: AdamW updates it, as vectors, embeddings and heads.
[[nodiscard]] std::optional<MatrixDims> matrix_dims(const Network& network, const Block& block,
                                                    const Operator& op, ParameterId parameter,
                                                    const MatrixUpdates& updates);

/// The axes over which the gradients of dense parameters are summed in one go.
[[nodiscard]] AxisSet replica_axes(const DeviceMesh& mesh);

/// How often replicas sum their gradients.
[[nodiscard]] Scope gradient_reduce_scope(const PlanDegrees& plan, const ShardingRules& rules);

/// `precision` is what the user asked for (a key of Framework::precision).
[[nodiscard]] TensorPolicies tensor_policies(const PlanDegrees& plan, const DeviceMesh& mesh,
                                             const Framework& framework, DataType precision);

}  // namespace plansearch
