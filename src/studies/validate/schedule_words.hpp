// SPDX-License-Identifier: Apache-2.0
// What tables of runs call the orders of pipelines (`schedules:` of validation/architectures.yaml).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "io/document.hpp"
#include "plansearch/schedule_id.hpp"

namespace plansearch {

struct ScheduleWords {
  std::map<std::string, ScheduleId, std::less<>> orders;  ///< by words, in lower case
  std::set<std::string, std::less<>> remarks;             ///< parts that change no order

  /// Text in brackets is a remark, parts behind commas and semicolons have to be known ones.
  [[nodiscard]] std::optional<ScheduleId> find(std::string_view text) const;
};

[[nodiscard]] ScheduleWords read_schedule_words(const io::Node& node);

}  // namespace plansearch
