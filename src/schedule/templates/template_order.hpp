// SPDX-License-Identifier: Apache-2.0
// Orders over a task template of any plan: whether they can run, and a cycle of waits if not.
#pragma once

#include <vector>

#include "schedule/templates/task_template.hpp"

namespace plansearch {

struct TemplateStep {
  NodeId node = 0;
  int micro_batch = 0;
  bool joined = false;  ///< one piece with the step before it; not of nodes on several devices
  bool operator==(const TemplateStep&) const = default;
};

/// By device. A node on several devices stands in the list of each, once per micro-batch.
using TemplateLists = std::vector<std::vector<TemplateStep>>;

enum class WhyWaits : std::uint8_t {
  Input,     ///< for what the next step makes
  Sequence,  ///< the device runs the next step before, or as one piece with it
};

struct TemplateWait {
  int device = 0;
  TemplateStep step;
  WhyWaits because = WhyWaits::Input;
  bool operator==(const TemplateWait&) const = default;
};

/// Empty if every device can run its list from front to back at any times. Otherwise a shortest
/// cycle of steps, each of which waits for the next one, the last for the first (the shortest that
/// a bounded search finds in orders of more than some thousand steps). Needs every node of every
/// micro-batch once on each of its devices.
[[nodiscard]] std::vector<TemplateWait> find_deadlock(const TaskTemplate& plan, int micro_batches,
                                                      const TemplateLists& lists);

}  // namespace plansearch
