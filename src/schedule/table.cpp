// SPDX-License-Identifier: Apache-2.0
// Computes:   nothing; lists the schedules.
// Source:     the files of orders/.
// Assumes:    rows are only ever added at the end: plans of equal time are ranked in this order.
// Units:      none.
// Checked by: tests/unit/schedule/stage_places_test.cpp
#include "schedule/table.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <mutex>

#include "base/names.hpp"
#include "plansearch/error.hpp"

namespace plansearch {

// Each is made in orders/, kindred ones in one file.
Schedule gpipe_schedule();
Schedule one_f_one_b_schedule();
Schedule interleaved_schedule();
Schedule zb_h1_schedule();
Schedule zb_v_schedule();
Schedule zb_h2_schedule();
Schedule eager_1f1b_schedule();
Schedule breadth_first_schedule();
Schedule hanayo_schedule();
Schedule v_half_schedule();
Schedule v_min_schedule();
Schedule chimera_schedule();
Schedule dualpipe_schedule();
Schedule dualpipe_v_schedule();
Schedule zb_auto_schedule();
Schedule interleaved_pairs_schedule();
Schedule pairs_schedule();
Schedule several_forwards_schedule();

namespace {

std::vector<Schedule> make_table() {
  return {gpipe_schedule(),       one_f_one_b_schedule(),
          interleaved_schedule(), zb_h1_schedule(),
          zb_v_schedule(),        zb_h2_schedule(),
          eager_1f1b_schedule(),  breadth_first_schedule(),
          hanayo_schedule(),      v_half_schedule(),
          v_min_schedule(),       chimera_schedule(),
          dualpipe_schedule(),    dualpipe_v_schedule(),
          zb_auto_schedule(),     interleaved_pairs_schedule(),
          pairs_schedule(),       several_forwards_schedule()};
}

const std::vector<Schedule>& table() {
  static const std::vector<Schedule> kTable = make_table();
  return kTable;
}

bool joins_pieces(std::span<const ComputeStep> steps) {
  for (std::size_t i = 0; i < steps.size(); i = piece_end(steps, i)) {
    if (overlaps(steps.subspan(i, piece_end(steps, i) - i))) return true;
  }
  return false;
}

/// An order that a user wrote, with what its row points to.
struct GivenSchedule {
  GivenSchedule(std::string text, ComputeOrder steps)
      : name(std::move(text)), order(std::move(steps)) {
    const int chunks = order.chunks() / order.replicas;
    row.name = name;
    row.summary = "an order read from a file";
    row.placement = &placement;
    row.chunks = {chunks, chunks};
    row.weight_gradients = order.weight_gradients;
    row.joins = std::any_of(order.devices.begin(), order.devices.end(),
                            [](const auto& device) { return joins_pieces(device); });
    row.given = &order;
  }
  GivenSchedule(const GivenSchedule&) = delete;
  GivenSchedule& operator=(const GivenSchedule&) = delete;

  const std::string name;
  const ComputeOrder order;
  const StageMapping placement{"file", "as the file says",
                               [this](int, int) { return order.pipeline; }, order.replicas};
  Schedule row;
};

/// Values by number, which equal ones share. They live as long as the process: plans and caches
/// hold numbers.
class GivenSchedules {
 public:
  std::size_t number_of(const std::string& name, ComputeOrder order) {
    const std::lock_guard lock(mutex_);
    const std::size_t count = count_.load();
    for (std::size_t i = 0; i < count; ++i) {
      if (rows_[i]->name == name && rows_[i]->order == order) return i;
    }
    if (table().size() + count == kNumbers) {
      throw InputError({name}, "too many schedules from files", "ask about fewer at a time");
    }
    rows_.at(count) = std::make_unique<const GivenSchedule>(name, std::move(order));
    count_.store(count + 1, std::memory_order_release);
    return count;
  }
  [[nodiscard]] const Schedule* find(std::size_t number) const {
    return number < count_.load(std::memory_order_acquire) ? &rows_[number]->row : nullptr;
  }

 private:
  static constexpr std::size_t kNumbers =
      std::size_t{1} + std::numeric_limits<std::underlying_type_t<ScheduleId>>::max();
  std::mutex mutex_;
  std::array<std::unique_ptr<const GivenSchedule>, kNumbers> rows_;
  std::atomic<std::size_t> count_{0};  ///< rows before it never change
};

GivenSchedules& given_schedules() {
  static GivenSchedules given;
  return given;
}

/// Asked millions of times in a search.
const Schedule* find_row(ScheduleId id) {
  static const std::span<const Schedule> kRows = table();
  const auto row = static_cast<std::size_t>(id);
  return row < kRows.size() ? &kRows[row] : given_schedules().find(row - kRows.size());
}

}  // namespace

const Schedule& schedule_row(ScheduleId id) {
  const Schedule* row = find_row(id);
  PLANSEARCH_CHECK(row != nullptr);
  return *row;
}

const StageMapping& mapping_of(const PipelineShape& shape) {
  return shape.placement != nullptr ? *shape.placement : *schedule_row(shape.schedule).placement;
}

bool is_schedule(ScheduleId id) {
  return find_row(id) != nullptr;
}

ScheduleId given_schedule(const std::string& name, ComputeOrder order) {
  return static_cast<ScheduleId>(table().size() +
                                 given_schedules().number_of(name, std::move(order)));
}

void check_pieces(const PipelineShape& shape) {
  constexpr double kMost = 1e7;
  const double phases = 2.0 + shape.forwards;
  if (phases * shape.virtual_stages() * shape.micro_batches <= kMost) return;
  throw SimulationLimit("an order of " + std::to_string(shape.virtual_stages()) +
                            " virtual stages and " + std::to_string(shape.micro_batches) +
                            " micro-batches has too many pieces to be simulated",
                        "fewer stages or micro-batches, or a schedule that repeats itself");
}

ComputeOrder order_of(const PipelineShape& shape) {
  check_pieces(shape);
  const Schedule& row = schedule_row(shape.schedule);
  return row.given != nullptr ? *row.given : row.order(shape);
}

ComputeOrder empty_order(const PipelineShape& shape) {
  ComputeOrder order;
  const StageMapping& placement = mapping_of(shape);
  order.pipeline = placement.places(shape.stages, shape.chunks);
  order.replicas = placement.replicas;
  order.micro_batches = shape.micro_batches;
  order.forwards = shape.forwards;
  order.weight_gradients = schedule_row(shape.schedule).weight_gradients;
  return order;
}

ComputeOrder order_by_device(const PipelineShape& shape,
                             const std::function<std::vector<ComputeStep>(int)>& steps_of) {
  ComputeOrder order = empty_order(shape);
  for (int d = 0; d < shape.stages; ++d) order.devices.push_back(steps_of(d));
  return order;
}

std::optional<ShapeFault> too_few_micro_batches(const PipelineShape& shape, int fewest) {
  if (shape.micro_batches >= fewest) return std::nullopt;
  return ShapeFault{ShapeField::MicroBatches, shape.micro_batches, {fewest}};
}

std::variant<ComputeOrder, Infeasible> make_order(const PipelineShape& shape) {
  if (auto obstacle = obstacle_of(shape)) return *obstacle;
  return order_of(shape);
}

int PipelineShape::virtual_stages() const {
  return stages * chunks * schedule_row(schedule).placement->replicas;
}

namespace {

/// Those of the first `count` forwards of a device that are of one chunk: chunk after chunk in
/// groups of micro-batches, of which the last may be shorter.
int forwards_of_chunk(const PipelineShape& shape, int chunk, int count) {
  const int group = shape.group_size();
  const int whole = std::min(count / (group * shape.chunks), shape.micro_batches / group);
  const int rest = count - whole * group * shape.chunks;
  const int under_way = std::min(group, shape.micro_batches - whole * group);
  return whole * group + std::clamp(rest - chunk * under_way, 0, under_way);
}

/// Where all forwards after the first ones are joined.
void count_after_warm_up(const PipelineShape& shape, std::vector<int>& counts) {
  const Schedule& row = schedule_row(shape.schedule);
  counts.clear();
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    for (int device = 0; device < shape.stages; ++device) {
      const int alone = std::min(row.warm_up(shape, device), shape.micro_batches * shape.chunks);
      counts.push_back(shape.micro_batches - forwards_of_chunk(shape, chunk, alone));
    }
  }
}

}  // namespace

const std::vector<int>& joined_forwards(const PipelineShape& shape) {
  thread_local PipelineShape known;
  thread_local std::vector<int> counts;
  if (!counts.empty() && known == shape) return counts;
  if (joins_after_warm_up(shape.schedule)) {
    count_after_warm_up(shape, counts);
    known = shape;
    return counts;
  }
  const ComputeOrder order = order_of(shape);
  counts.assign(order.pipeline.size(), 0);
  for (std::size_t device = 0; device < order.devices.size(); ++device) {
    const std::span<const ComputeStep> steps(order.devices[device]);
    for (std::size_t i = 0; i < steps.size(); i = piece_end(steps, i)) {
      const auto piece = steps.subspan(i, piece_end(steps, i) - i);
      if (!overlaps(piece)) continue;
      for (const ComputeStep& step : piece) {
        if (step.phase != Phase::Forward) continue;
        ++counts[order.virtual_stage(static_cast<int>(device), step.chunk)];
      }
    }
  }
  known = shape;
  return counts;
}

bool joins_after_warm_up(ScheduleId id) {
  const Schedule& row = schedule_row(id);
  return row.joins && row.warm_up != nullptr;
}

bool splits_backward(ScheduleId id) {
  return schedule_row(id).weight_gradients == WeightGradients::Separate;
}

std::string_view to_text(ScheduleId schedule) {
  return schedule_row(schedule).name;
}

std::optional<ScheduleId> find_schedule(std::string_view name) {
  const std::string wanted = canonical_name(name);
  for (const ScheduleId id : all_schedules()) {
    const Schedule& row = schedule_row(id);
    const auto& aliases = row.aliases;
    if (row.name == wanted || std::find(aliases.begin(), aliases.end(), wanted) != aliases.end()) {
      return id;
    }
  }
  return std::nullopt;
}

const std::vector<ScheduleId>& all_schedules() {
  static const std::vector<ScheduleId> kAll = [] {
    std::vector<ScheduleId> all;
    for (std::size_t i = 0; i < table().size(); ++i) all.push_back(static_cast<ScheduleId>(i));
    return all;
  }();
  return kAll;
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Schedule& row : table()) names.emplace_back(row.name);
    return names;
  }();
  return kNames;
}

}  // namespace plansearch
