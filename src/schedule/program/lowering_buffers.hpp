// SPDX-License-Identifier: Apache-2.0
// Allocations and frees of the pieces of a program under construction; private to lowering.
#pragma once

#include <cstddef>
#include <vector>

#include "schedule/program/lowering_messages.hpp"

namespace plansearch {

class BufferWriter {
 public:
  BufferWriter(const OrderWays& ways, const LoweringOptions& options, MessageWriter& messages,
               Program& program)
      : ways_(ways), options_(options), messages_(messages), program_(program) {}

  /// Before a piece: room for what it sends and, before a forward, for what it keeps until the
  /// input gradient and until the weight gradient.
  void allocate(const PlacedStep& placed);
  /// After it: what it received, and what was kept for it.
  void release(const PlacedStep& placed);

 private:
  [[nodiscard]] Bytes for_weights(std::size_t stage) const;
  [[nodiscard]] std::size_t kept_index(const PlacedStep& placed, Phase until) const;

  const OrderWays& ways_;
  const LoweringOptions& options_;
  MessageWriter& messages_;
  Program& program_;
  std::vector<BufferId> kept_;  ///< by stage, micro-batch and what frees it
};

}  // namespace plansearch
