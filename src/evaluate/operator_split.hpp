// SPDX-License-Identifier: Apache-2.0
// The operators of one block on the tensor devices of a stage, each cut along a dimension of its
// own or run whole by every device: what each way costs, and what moves between neighbours.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "evaluate/operator_price.hpp"
#include "plansearch/degrees.hpp"
#include "plansearch/network.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

/// By operator: the loop position that is cut over the devices, or kWhole.
using SplitChoice = std::vector<int>;
inline constexpr int kWhole = -1;

class OperatorSplit {
 public:
  /// `degrees`: tensor_out devices beside data ranks, no other axis; heads need not divide.
  OperatorSplit(const Problem& problem, const PlanDegrees& degrees, std::size_t block);
  ~OperatorSplit();
  OperatorSplit(const OperatorSplit&) = delete;
  OperatorSplit& operator=(const OperatorSplit&) = delete;

  [[nodiscard]] const Block& block() const;
  /// kWhole first, then heads, FFN, vocabulary and features of the stream where they divide.
  [[nodiscard]] const std::vector<int>& options(std::size_t op) const;
  /// The dimension that an option cuts; empty for kWhole.
  [[nodiscard]] std::string cut_dimension(std::size_t op, int option) const;
  /// Operators that touch a tensor: what moves it depends on their options alone.
  [[nodiscard]] std::vector<std::size_t> touching(TensorId tensor) const;

  /// One micro-batch of the block, nothing hidden: the sum of what follows.
  [[nodiscard]] Seconds price(const SplitChoice& choice) const;
  /// Kernels of an operator and its own messages.
  [[nodiscard]] Seconds own(std::size_t op, const SplitChoice& choice) const;
  /// What brings a tensor to those who read it, and its gradient back.
  [[nodiscard]] Seconds moving(TensorId tensor, const SplitChoice& choice) const;
  /// Elements of its parameters on one device.
  [[nodiscard]] double parameters(std::size_t op, const SplitChoice& choice) const;

 private:
  struct Parts;
  [[nodiscard]] std::shared_ptr<const LocalWork> work(const SplitChoice& choice) const;
  std::unique_ptr<const Parts> parts_;
};

}  // namespace plansearch
