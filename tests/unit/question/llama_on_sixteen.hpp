// SPDX-License-Identifier: Apache-2.0
// A plan of llama3-8b on 16 H100 for questions about a measured step.
#pragma once

#include "question/resolve_plan.hpp"

namespace plansearch::test {

inline PlanRequest llama_on_sixteen() {
  PlanRequest asked;
  asked.request.hardware = "dgx-h100";
  asked.request.model = "llama3-8b";
  asked.request.gpus = 16;
  asked.request.batch = 64;
  asked.request.degrees.pin(Degree::TensorOut, 2);
  asked.request.degrees.pin(Degree::Data, 8);
  asked.request.degrees.pin(Degree::MicroBatch, 1);
  return asked;
}

}  // namespace plansearch::test
