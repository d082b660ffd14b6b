// SPDX-License-Identifier: Apache-2.0
// The table of schedules. A schedule is one file in orders/, one row here and one test; nothing
// else in the program knows it by name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "schedule/order/compute_order.hpp"
#include "schedule/order/stage_places.hpp"
#include "schedule/simulation/compiled_order.hpp"
#include "schedule/simulation/pipeline.hpp"
#include "schedule/simulation/rounds.hpp"

namespace plansearch {

/// How many chunks of the model a device may hold.
struct ChunkRange {
  int fewest = 1;
  std::optional<int> most = 1;  ///< absent: as many as there are layers
  [[nodiscard]] bool contains(int chunks) const {
    return chunks >= fewest && (!most || chunks <= *most);
  }
};

/// Whether micro-batches pass a chunk in groups whose size can be chosen.
enum class Groups : std::uint8_t { None, Sized };

/// From `ends` micro-batches on, `period` more of them put one more period of steps into the middle
/// of the order and change nothing else. period 0: not so.
struct Repetition {
  int period = 0;
  int ends = 0;
};

/// A row. An absent field has a default that holds for any order: legality by chunks alone, the
/// exact simulation of every step as time and estimate, the bound of the work as placed, memory as
/// walked from the order.
struct Schedule {
  std::string_view name;
  std::vector<std::string_view> aliases;
  std::string_view summary;  ///< the order in one line, for users
  std::string_view needs;    ///< what `fault` asks for, in words; p stages, m micro-batches
  const StageMapping* placement = nullptr;
  int fewest_stages = 1;
  ChunkRange chunks;
  int chunks_per_wave = 0;  ///< of schedules that are asked for in waves
  Groups groups = Groups::None;
  WeightGradients weight_gradients = WeightGradients::Fused;
  bool joins = false;  ///< some piece is a forward and a backward at the same time
  /// Whether it orders several forward passes of a micro-batch.
  bool several_forwards = false;
  bool tuned = false;  ///< the order is made for the times and the memory cap of the shape
  /// The other placement of a tuned order, with as many replicas; null: none.
  const StageMapping* other_placement = nullptr;
  const ComputeOrder* given = nullptr;  ///< read from a file: the only one of its row
  ComputeOrder (*order)(const PipelineShape& shape) = nullptr;  ///< needs a legal shape

  /// The demand of the order on a shape beyond the fields above.
  std::optional<ShapeFault> (*fault)(const PipelineShape& shape) = nullptr;
  /// Lets the cost of simulating and walking the order not grow with the micro-batches.
  Repetition (*repetition)(const PipelineShape& shape) = nullptr;
  /// The same of a tuned order, whose repeating part is found with the order.
  ShapeOrder (*shortened)(const PipelineShape& shape) = nullptr;
  /// Looped places whose chunks all micro-batches pass before the next one starts: simulated as
  /// flow shops (flow_simulator.hpp).
  bool chunk_by_chunk = false;
  /// A faster exact simulation, where `has_rounds` (absent: everywhere).
  RoundSimulator::Rounds rounds = nullptr;
  bool (*has_rounds)(const PipelineShape& shape) = nullptr;
  /// A better bound and a faster estimate, as in closed_form.hpp.
  Ticks (*bound)(const PipelineShape& shape, const PipelineTimes& times) = nullptr;
  Ticks (*estimate)(const PipelineShape& shape, const PipelineTimes& times) = nullptr;
  /// Forwards before the first pair of forward and backward, for orders that alternate from then on
  /// and pass the chunks in groups: peaks without a walk.
  int (*warm_up)(const PipelineShape& shape, int device) = nullptr;
};

[[nodiscard]] const Schedule& schedule_row(ScheduleId id);
/// The placement of a shape: its own, else that of its schedule.
[[nodiscard]] const StageMapping& mapping_of(const PipelineShape& shape);
[[nodiscard]] bool is_schedule(ScheduleId id);
/// An order of a user as a schedule: its row never changes, equal names and orders have
/// one. The order is complete and can run (order_check.hpp). Thread-safe, beside look-ups of rows
/// as well.
[[nodiscard]] ScheduleId given_schedule(const std::string& name, ComputeOrder order);
/// Throws SimulationLimit for an order that would take too much time and memory to make.
void check_pieces(const PipelineShape& shape);
/// The row's order for a legal shape. Throws as check_pieces does.
[[nodiscard]] ComputeOrder order_of(const PipelineShape& shape);
/// An order without steps yet, on the places of the shape's schedule.
[[nodiscard]] ComputeOrder empty_order(const PipelineShape& shape);
/// The same with the steps of every device.
[[nodiscard]] ComputeOrder order_by_device(
    const PipelineShape& shape, const std::function<std::vector<ComputeStep>(int)>& steps_of);
/// A row of that name on looped places, without its order.
[[nodiscard]] Schedule looped_schedule(std::string_view name, std::string_view summary);
[[nodiscard]] std::optional<ShapeFault> too_few_micro_batches(const PipelineShape& shape,
                                                              int fewest);
/// The order of shape.schedule, or why there is none.
[[nodiscard]] std::variant<ComputeOrder, Infeasible> make_order(const PipelineShape& shape);
/// How many forwards of every virtual stage are one piece with a backward. Remembers the shape that
/// a thread asked for last.
[[nodiscard]] const std::vector<int>& joined_forwards(const PipelineShape& shape);
/// Whether every forward after the first ones is one piece with a backward.
[[nodiscard]] bool joins_after_warm_up(ScheduleId id);
/// Whether the order runs input and weight gradients as pieces of their own.
[[nodiscard]] bool splits_backward(ScheduleId id);

}  // namespace plansearch
