// SPDX-License-Identifier: Apache-2.0
#include "cli/load.hpp"

namespace plansearch::cli {

Inputs load_inputs(const AskedOptions& asked) {
  ProblemRequest request = asked.options;
  request.from_plan = asked.from_plan;
  request.content_hashes = asked.content_hashes;
  return load_problem(request);
}

}  // namespace plansearch::cli
