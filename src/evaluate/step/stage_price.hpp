// SPDX-License-Identifier: Apache-2.0
// The price of one stage of a pipeline before there is a pipeline: for planners, which put stages
// together. The same profiles, statics and messages that whole plans are priced by.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "evaluate/step/plan_views.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/plan.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// One configuration of a stage over consecutive devices, ready to be priced.
struct StageConfig {
  PlanDegrees degrees;  ///< micro-batches those of the plan; pipeline 2 where it has several stages
  DeviceMesh mesh;
  std::shared_ptr<const ClassProfile> profile;
  ModelStatePolicy statics;

  [[nodiscard]] int devices() const { return degrees.stage_ranks(); }
};

struct StagePrice {
  Seconds forward;    ///< of one micro-batch
  Seconds backward;   ///< both gradients and recomputation
  Seconds reduction;  ///< exposed at the end of the step, without parameters that stages share
  Seconds after;      ///< optimizer and per-step host time
  Bytes fixed;        ///< everything but activations of micro-batches in flight
  Bytes activations;  ///< of one micro-batch in flight

  [[nodiscard]] Seconds both() const { return forward + backward; }
};

/// A message to the next stage and its gradient on the return.
struct StageTransfer {
  Seconds activation;
  Seconds gradient;
};

/// Blocks that follow each other in a network.
struct PlacedRuns {
  std::vector<BlockRun> blocks;
  std::int64_t first = 0;  ///< position of the first copy

  [[nodiscard]] std::size_t last_block() const { return blocks.back().block; }
};

/// A stage of a plan, and where it begins.
struct PlacedStage {
  const StageConfig* form = nullptr;
  const PlacedRuns* blocks = nullptr;
  int first_rank = 0;
};

class StagePricer {
 public:
  /// The views are referenced: stages share the profiles of whole plans.
  explicit StagePricer(const PlanViews& views) : views_(views) {}

  /// `degrees`: legal for a stage of the problem, its orders do not split the backward pass.
  [[nodiscard]] StageConfig form(const PlanDegrees& degrees) const;
  [[nodiscard]] StagePrice price(const StageConfig& form, const PlacedRuns& blocks) const;
  /// From a stage that ends with these blocks to another, without what edges take straight to their
  /// readers; of both the first rank.
  [[nodiscard]] StageTransfer transfer(const StageConfig& from, const StageConfig& to,
                                       const PlacedRuns& last,
                                       const std::array<int, 2>& first) const;

  /// The time that each of these stages adds to its reduction for parameters that several share:
  /// all of a plan or, where they lie along no axis of one mesh, the first one and those that
  /// share.
  [[nodiscard]] std::vector<Seconds> shared_reductions(
      const std::vector<PlacedStage>& stages) const;
  /// Whether these blocks hold parameters that other blocks hold too.
  [[nodiscard]] bool shares(const StageConfig& form, const std::vector<BlockRun>& blocks) const;

 private:
  const PlanViews& views_;
};

}  // namespace plansearch
