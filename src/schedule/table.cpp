// SPDX-License-Identifier: Apache-2.0
// Computes:   nothing; lists the schedules.
// Source:     the files of orders/.
// Assumes:    rows are only ever added at the end: plans of equal time are ranked in this order.
// Units:      none.
// Checked by: tests/unit/schedule/stage_places_test.cpp
#include "schedule/table.hpp"

#include <algorithm>
#include <deque>
#include <limits>

#include "base/names.hpp"
#include "plansearch/error.hpp"

namespace plansearch {

// Each is made in orders/<name>.cpp.
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

namespace {

std::vector<Schedule> make_table() {
  // clang-format off
  return {
      gpipe_schedule(),
      one_f_one_b_schedule(),
      interleaved_schedule(),
      zb_h1_schedule(),
      zb_v_schedule(),
      zb_h2_schedule(),
      eager_1f1b_schedule(),
      breadth_first_schedule(),
      hanayo_schedule(),
      v_half_schedule(),
      v_min_schedule(),
      chimera_schedule(),
      dualpipe_schedule(),
      dualpipe_v_schedule(),
      zb_auto_schedule(),
  };
  // clang-format on
}

const std::vector<Schedule>& table() {
  static const std::vector<Schedule> kTable = make_table();
  return kTable;
}

/// An order that somebody wrote, with what its row points to.
struct GivenSchedule {
  std::string name;
  ComputeOrder order;
  Placement placement;
  Schedule row;
};

/// Grows while files are read, never forgets: plans name rows by number.
std::deque<GivenSchedule>& given_schedules() {
  static std::deque<GivenSchedule> given;
  return given;
}

/// Of the table and of files, by number.
std::vector<std::string>& names() {
  static std::vector<std::string> names = [] {
    std::vector<std::string> listed;
    for (const Schedule& row : table()) listed.emplace_back(row.name);
    return listed;
  }();
  return names;
}

}  // namespace

const Schedule& schedule_row(ScheduleId id) {
  const auto row = static_cast<std::size_t>(id);
  if (row < table().size()) return table()[row];
  PLANSEARCH_CHECK(row - table().size() < given_schedules().size());
  return given_schedules()[row - table().size()].row;
}

ScheduleId add_given_schedule(const std::string& name, ComputeOrder order) {
  auto& given = given_schedules();
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].name == name && given[i].order == order) {
      return static_cast<ScheduleId>(table().size() + i);
    }
  }
  const std::size_t number = table().size() + given.size();
  if (number > std::numeric_limits<std::underlying_type_t<ScheduleId>>::max()) {
    throw InputError({name}, "too many schedules from files", "ask about fewer at a time");
  }
  GivenSchedule& made = given.emplace_back();
  made.name = name;
  names().push_back(name);
  made.order = std::move(order);
  made.placement = {"file", "as the file says", [&made](int, int) { return made.order.pipeline; },
                    made.order.replicas};
  const int chunks = made.order.chunks() / made.order.replicas;
  made.row.name = made.name;
  made.row.summary = "an order read from a file";
  made.row.placement = &made.placement;
  made.row.chunks = {chunks, chunks};
  made.row.weight_gradients = made.order.weight_gradients;
  made.row.given = &made.order;
  return static_cast<ScheduleId>(number);
}

ComputeOrder order_of(const PipelineShape& shape) {
  const Schedule& row = schedule_row(shape.schedule);
  return row.given != nullptr ? *row.given : row.order(shape);
}

int PipelineShape::virtual_stages() const {
  return stages * chunks * schedule_row(schedule).placement->replicas;
}

bool splits_backward(ScheduleId id) {
  return schedule_row(id).weight_gradients == WeightGradients::Separate;
}

std::string_view to_text(ScheduleId schedule) {
  return schedule_row(schedule).name;
}

std::optional<ScheduleId> find_schedule(std::string_view name) {
  const auto& given = given_schedules();
  for (std::size_t i = given.size(); i-- > 0;) {
    if (given[i].name == name) return static_cast<ScheduleId>(table().size() + i);
  }
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
  return names();
}

}  // namespace plansearch
