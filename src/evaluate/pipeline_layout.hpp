// SPDX-License-Identifier: Apache-2.0
// Which blocks each virtual stage of a pipeline holds, with equal stages stored once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "plansearch/degrees.hpp"
#include "plansearch/problem.hpp"

namespace plansearch {

struct PipelineLayout {
  int stages = 1;
  int chunks = 1;
  std::vector<std::vector<double>> contents;  ///< distinct ones: copies by block index
  std::vector<int> content_of;                ///< by virtual stage

  [[nodiscard]] int virtual_stages() const { return stages * chunks; }
};

/// One layout per (pipeline, chunks), shared by all threads.
class LayoutCache {
 public:
  explicit LayoutCache(const Problem& problem) : problem_(problem) {}
  [[nodiscard]] const PipelineLayout& get(const PlanDegrees& plan) const;

 private:
  const Problem& problem_;
  mutable std::mutex mutex_;
  mutable std::map<std::pair<int, int>, std::unique_ptr<const PipelineLayout>> layouts_;
};

}  // namespace plansearch
