// SPDX-License-Identifier: Apache-2.0
#include "calibrate/probes/probe_rows.hpp"

namespace plansearch::calibrate {

std::vector<Point> launch_points(const Grid& /*grid*/) {
  return {{"launch", {{"kernel", "stream"}}}, {"launch", {{"kernel", "graph"}}}};
}

Work launch_work(const Point& /*point*/) {
  return {};
}

}  // namespace plansearch::calibrate
