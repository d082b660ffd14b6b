// SPDX-License-Identifier: Apache-2.0
// The channels of a program that is being made, and its sends and receives; private to lowering.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "schedule/program/lowering.hpp"
#include "schedule/program/lowering_routes.hpp"

namespace plansearch {

class MessageWriter {
 public:
  /// Boundaries between different devices get a channel each way, the same for the same devices.
  MessageWriter(const OrderWays& ways, const LoweringOptions& options, Program& program);

  /// The message of a micro-batch by a way, made where there is none yet.
  MessageId message(const Way& way, int micro_batch);
  void send(const Way& way, int micro_batch);
  void receive(const Way& way, const PlacedStep& placed);

  [[nodiscard]] bool in_order() const { return options_.sends.receives == Receives::InOrder; }
  [[nodiscard]] Bytes bytes_of(const Way& way) const;

 private:
  void open_channels();
  [[nodiscard]] std::vector<ResourceUse> uses_of(const Way& way) const;
  std::size_t receive_queue(std::uint32_t channel);

  const OrderWays& ways_;
  const LoweringOptions& options_;
  Program& program_;
  std::vector<MessageId> messages_;                         ///< by node and micro-batch
  std::vector<std::uint32_t> channel_of_;                   ///< by node
  std::vector<std::optional<std::size_t>> receive_queues_;  ///< by channel
};

}  // namespace plansearch
