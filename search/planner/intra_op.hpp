// SPDX-License-Identifier: Apache-2.0
// Which operators of a layer are split over tensor devices, and along what: the exact choice.
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "evaluate/operator_split.hpp"

namespace plansearch {

struct SplitPlan {
  SplitChoice choice;
  Seconds time;             ///< of one micro-batch of the block, nothing hidden
  double parameters = 0.0;  ///< elements on one device
};

/// The fastest way to run the block whose devices hold at most so many elements of parameters each;
/// nothing where there is none. Among equals, fewer parameters.
[[nodiscard]] std::optional<SplitPlan> best_split(
    const OperatorSplit& split, double most_parameters = std::numeric_limits<double>::infinity());

/// The dimensions that are cut, and of which operators: "ffn (mlp_up, gelu, mlp_down)"; "nothing".
[[nodiscard]] std::string split_text(const OperatorSplit& split, const SplitChoice& choice);

}  // namespace plansearch
