// SPDX-License-Identifier: Apache-2.0
// The question: which network, on which machine, run by which framework, with which batch.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "plansearch/cluster.hpp"
#include "plansearch/data_type.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/network.hpp"
#include "plansearch/site.hpp"

namespace plansearch {

inline constexpr double kDefaultMemoryRisk = 0.10;

/// Shared, immutable inputs of every evaluation. Cheap to copy.
struct Problem {
  std::shared_ptr<const Cluster> cluster;
  std::shared_ptr<const ModelDescription> model;
  std::shared_ptr<const Network> network;  ///< built for the sequence length and attention kind
  std::shared_ptr<const Framework> framework;
  DataType precision = DataType::Bf16;
  int gpus = 1;
  std::int64_t global_batch = 1;  ///< sequences per optimizer step
  std::int64_t seq_len = 1;
  Bytes memory_reserve;                     ///< asked for by the user, beyond the framework's own
  double memory_risk = kDefaultMemoryRisk;  ///< of running out of memory that a plan may have
  /// Site factor of the reports. Bounds, estimates and simulations are at factor 1; the spread is
  /// in their intervals.
  SiteEffect site{};
  /// Passes over the program of a step, by row of their table (bit i: row i). Present, be it none:
  /// steps are simulated instruction by instruction, messages share network cards.
  std::optional<std::uint32_t> passes{};
};

}  // namespace plansearch
