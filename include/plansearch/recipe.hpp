// SPDX-License-Identifier: Apache-2.0
// A published plan, for comparison: no price depends on it.
#pragma once

#include <optional>
#include <string>

#include "plansearch/problem_request.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// One entry of recipes/*.yaml.
struct Recipe {
  std::string name;
  std::string publisher;
  std::string source;                  ///< where it stands
  std::string date;                    ///< "2024-07", or a year
  ProblemRequest question{};           ///< model, machine, size, settings and degrees as published
  std::optional<Seconds> step_time{};  ///< as published
  bool operator==(const Recipe&) const = default;
};

}  // namespace plansearch
