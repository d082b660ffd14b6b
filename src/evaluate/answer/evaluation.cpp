// SPDX-License-Identifier: Apache-2.0
#include "plansearch/evaluation.hpp"

#include <algorithm>

#include "plansearch/error.hpp"

namespace plansearch {

Seconds StepTimeBreakdown::exposed_total() const {
  Seconds sum;
  for (const Seconds part : exposed) sum += part;
  return sum;
}

Seconds StepTimeBreakdown::total() const {
  return compute + recompute + exposed_total() + bubble + optimizer + host + site;
}

Estimate at_factor(Estimate estimate, double factor) {
  estimate.step.site = estimate.step.total() * (factor - 1.0);
  return estimate;
}

Bytes held_by_process(const DeviceMemory& device, Bytes capacity) {
  const Bytes needed = device.memory.total();
  return std::max(needed, std::min(needed + device.cached, capacity));
}

std::string_view to_text(MemoryFit fit) {
  switch (fit) {
    case MemoryFit::Fits:
      return "fits";
    case MemoryFit::Tight:
      return "tight";
    case MemoryFit::No:
      return "no";
  }
  throw InternalError("unknown memory verdict");
}

Bytes MemoryBreakdown::total() const {
  return parameters + gradients + optimizer + activations + transient + buffers + reserve;
}

}  // namespace plansearch
