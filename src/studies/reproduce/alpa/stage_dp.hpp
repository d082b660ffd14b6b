// SPDX-License-Identifier: Apache-2.0
// Which consecutive layers form a stage and which sub-mesh runs them: Alpa's inter-operator program
// as a pure function of a table of costs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace plansearch {

/// Cost of running layers first..last (both counted) as one stage, by sub-mesh and
/// configuration of it.
class StageTable {
 public:
  static constexpr double kImpossible = std::numeric_limits<double>::infinity();
  /// A stage that leaves room for any number of stages behind it.
  static constexpr int kAnySuccessors = std::numeric_limits<int>::max();

  /// `devices`: of every kind of sub-mesh. Nothing is possible until it is set.
  StageTable(int layers, std::vector<int> devices, int configurations);

  [[nodiscard]] int layers() const { return layers_; }
  [[nodiscard]] int configurations() const { return configurations_; }
  [[nodiscard]] const std::vector<int>& devices() const { return devices_; }
  /// Forward and backward of one micro-batch.
  [[nodiscard]] double& cost(int first, int last, int mesh, int configuration) {
    return costs_[index(first, last, mesh, configuration)];
  }
  [[nodiscard]] double cost(int first, int last, int mesh, int configuration) const {
    return costs_[index(first, last, mesh, configuration)];
  }
  /// How many stages may follow: each keeps one more micro-batch in flight here.
  [[nodiscard]] int& successors(int first, int last, int mesh, int configuration) {
    return successors_[index(first, last, mesh, configuration)];
  }
  [[nodiscard]] int successors(int first, int last, int mesh, int configuration) const {
    return successors_[index(first, last, mesh, configuration)];
  }

 private:
  [[nodiscard]] std::size_t index(int first, int last, int mesh, int configuration) const;

  int layers_;
  int configurations_;
  std::vector<int> devices_;
  std::vector<double> costs_;
  std::vector<int> successors_;
};

struct StageChoice {
  int first = 0;
  int last = 0;  ///< counted
  int mesh = 0;
  int configuration = 0;
  double cost = 0.0;
  bool operator==(const StageChoice&) const = default;
};

struct StagePartition {
  double total = 0.0;  ///< sum of the stages + (micro-batches - 1) x the longest
  std::vector<StageChoice> stages;
  std::int64_t limits = 0;  ///< distinct costs, each a limit of the longest stage
  std::int64_t tried = 0;   ///< those for which the program was solved
};

/// The partition of all layers onto exactly `devices` devices of least total, at most `gap` above
/// it; nothing when there is none.
[[nodiscard]] std::optional<StagePartition> best_stages(const StageTable& table, int devices,
                                                        int micro_batches, double gap = 0.0);

}  // namespace plansearch
