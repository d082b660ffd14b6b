// SPDX-License-Identifier: Apache-2.0
// The communication model by which AxoNN's authors rank grids, as closed forms, and the GPT
// networks of their runs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evidence/reproduce/gpt_question.hpp"
#include "plansearch/evaluator.hpp"

namespace plansearch {

/// Devices as out x in x depth x data, in their script r x c x d x data.
struct TensorGrid {
  int out = 1;
  int in = 1;
  int depth = 1;
  int data = 1;
  [[nodiscard]] int tensor() const { return out * in * depth; }
  bool operator==(const TensorGrid&) const = default;
};

/// Powers of two that multiply to `gpus`, at least `min_tensor` of them tensor ranks, the batch cut
/// over depth and data.
[[nodiscard]] std::vector<TensorGrid> grids_of(int gpus, std::int64_t batch, int min_tensor);

/// Bandwidth of a ring, GB/s, while all its sister groups send.
struct RingRates {
  int node = 4;                                  ///< accelerators
  double between = 1.0;                          ///< rings that use all accelerators of a node
  std::map<std::pair<int, int>, double> inside;  ///< by ranks of inner groups, ranks of the group
  std::set<std::pair<int, int>> used{};          ///< those that the profile holds
  /// Inside a node as listed; across nodes `between` over the groups that share a node.
  [[nodiscard]] double rate(int inner, int ranks) const;
};
/// Rates of validation/published/axonn_rates.csv.
[[nodiscard]] RingRates ring_rates(std::string_view machine, const ShippedData& data);

/// Volume that one transformer block moves. Activations in tokens x hidden of a data and depth
/// rank, as factors of 2 (g - 1) / (out in); weights as one-way transfers of 12 hidden^2 / (out
/// in).
struct BlockWeights {
  double out = 0.0;
  double in = 0.0;
  double depth = 0.0;
};
/// Products H -> 3H, H -> H, H -> 4H, 4H -> H, every second one transposed; gathered weights kept
/// until backward, or gathered again.
[[nodiscard]] BlockWeights block_weights(bool recompute, bool kept);
/// As the released script counts: the last product as if it were H -> 4H.
inline constexpr BlockWeights kScriptWeights{12.0, 16.0, 3.0};

/// Seconds of all messages of a step one after the other, the batch in one piece: activations and
/// weights in 2 bytes, gradients over data in 4.
[[nodiscard]] double grid_seconds(const GptSizes& sizes, std::int64_t batch, const TensorGrid& grid,
                                  const RingRates& rates, const BlockWeights& weights);

/// 12 L h^2 (1 + 13 / (12 h) + (V + s) / (12 L h)).
[[nodiscard]] double gpt_parameters(const GptSizes& sizes);
/// 96 B s L h^2 (1 + s / (6 h) + V / (16 L h)): with recomputation, attention uncut.
[[nodiscard]] double gpt_flops(const GptSizes& sizes, std::int64_t batch);

/// Messages of the four products of every layer, in time, of plans that run the
/// batch in one piece: derived, priced as any plan's, calls and launches of the
/// framework taken off. The difference
/// between a network of twice the layers and one of these is theirs: ends are the same.
class DerivedGrid {
 public:
  struct Question {
    const GptSizes& sizes;
    std::string hardware;
    int gpus;
    std::int64_t batch;
  };
  DerivedGrid(const Question& question, const ShippedData& data);

  /// Absent where the network does not divide.
  [[nodiscard]] std::optional<double> seconds(const TensorGrid& grid, Recompute recompute) const;
  /// Whether its framework keeps the weights gathered for forward until backward.
  [[nodiscard]] bool keeps_gathered() const { return keeps_gathered_; }

 private:
  std::int64_t batch_;
  bool keeps_gathered_ = false;
  /// The network and one of twice the layers.
  struct Pair {
    std::unique_ptr<PlanEvaluator> once;
    std::unique_ptr<PlanEvaluator> twice;
    [[nodiscard]] double layers(const PlanDegrees& plan, bool over_data) const;
  };
  Pair narrow_;  ///< 2 bytes an element on every wire
  Pair wide_;    ///< 4 bytes for gradients
};

}  // namespace plansearch
