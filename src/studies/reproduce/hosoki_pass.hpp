// SPDX-License-Identifier: Apache-2.0
// Gain of passes over just-in-time lists on fixed plans: the pipeline alone beside its closed
// form, and the whole step.
#pragma once

#include <string>
#include <vector>

#include "plansearch/quantity.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

struct PassGain {
  std::string hardware;
  int stages = 1;
  int micro_batches = 1;
  double transfer_share = 0.0;  ///< a message over the mean forward of a stage
  double gain = 0.0;            ///< of the pipeline alone, a share of its time before
  double equal_gain = 0.0;      ///< the same if every stage took the mean of all
  double closed_form = 0.0;     ///< what equal stages should gain
  double free_gain = 0.0;       ///< of equal stages where messages take no time
  double free_own_gain = 0.0;   ///< of the plan's stages, which meet at free messages too
  Seconds step_before;
  Seconds step_after;

  [[nodiscard]] double step_gain() const { return 1.0 - step_after / step_before; }
};

/// GPT-2 XL in fp16, 1,024 sequences a step on 64 GPUs, as Alpa's default runtime runs it; 2, 4 and
/// 8 stages of data-parallel ranks on each machine.
[[nodiscard]] std::vector<PassGain> pass_gains(const std::vector<std::string>& machines,
                                               const ShippedData& data);

}  // namespace plansearch
