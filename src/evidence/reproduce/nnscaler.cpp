// SPDX-License-Identifier: Apache-2.0
// nnScaler: its orders by themselves, in slots of one piece. Steps are rows with questions.
#include <fmt/format.h>

#include "evidence/reproduce/reproduce.hpp"
#include "io/plan/blocks_document.hpp"
#include "schedule/simulation/simulator.hpp"
#include "schedule/window/window_search.hpp"

namespace plansearch {
namespace {

double slots_of_three_passes(int stages, int micro_batches) {
  PipelineShape shape;
  shape.schedule = find_schedule("3f1b").value();
  shape.stages = stages;
  shape.micro_batches = micro_batches;
  shape.forwards = 3;
  PipelineSimulator simulator;
  const PipelineDurations times = uniform_durations(shape, {1, 1});
  return static_cast<double>(simulator.run(shape, times.view()).makespan);
}

/// The search on the published blocks, within the memory of the published schedule.
void add_interlaced(const StudyContext& context, Figures& figures) {
  const auto file = context.data.directory() / "validation/reproduce/nnscaler/interlaced.yaml";
  const io::BlocksDocument published = io::read_blocks(file);
  figures.add("interlaced published",
              static_cast<double>(makespan_of(published.plan, published.starts.value())));
  WindowRequest request{published.micro_batches.value(), {}};
  for (std::size_t d = 0; d < published.plan.devices(); ++d) {
    const double peak = figures.published(fmt::format("interlaced peak {}", d));
    request.caps.emplace_back(static_cast<int>(peak));
  }
  const auto found = find_window(published.plan, request);
  const auto* order = std::get_if<WindowOrder>(&found);
  const auto value = [&](auto of) {
    return order == nullptr ? std::optional<double>() : std::optional<double>(of(*order));
  };
  figures.add("interlaced window",
              value([](const WindowOrder& o) { return static_cast<double>(o.period); }));
  figures.add("interlaced slots",
              value([](const WindowOrder& o) { return static_cast<double>(o.makespan); }));
  for (std::size_t d = 0; d < published.plan.devices(); ++d) {
    figures.add(fmt::format("interlaced peak {}", d),
                value([&](const WindowOrder& o) { return static_cast<double>(o.peaks[d]); }));
  }
}

}  // namespace

void add_nnscaler(const StudyContext& context, Figures& figures) {
  add_priced(context, figures);
  for (const auto& [stages, micro_batches] : {std::pair{3, 4}, {4, 16}, {4, 32}}) {
    figures.add(fmt::format("3f1b {} {}", stages, micro_batches),
                slots_of_three_passes(stages, micro_batches));
  }
  add_interlaced(context, figures);
}

}  // namespace plansearch
