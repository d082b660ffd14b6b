// SPDX-License-Identifier: Apache-2.0
// Computes: the partition of least sum t_i + (B - 1) max t_j over layers and sub-meshes.
// Source: Zheng et al., Alpa (OSDI'22), eq. 2-5; memory by the number of later stages, as in
//         alpa/pipeline_parallel/stage_construction.py.
// Assumes: micro-batches pass the stages in 1F1B order, so that a stage keeps one more activation
//          than stages follow it.
// Units: seconds of one micro-batch, devices.
// Checked by: tests/unit/evidence/stage_dp_test.cpp (Alpa's own test tensor; brute force).
#include "evidence/reproduce/alpa/alpa_planner.hpp"

#include <algorithm>
#include <utility>

#include "plansearch/error.hpp"

namespace plansearch {

StageTable::StageTable(int layers, std::vector<int> devices, int configurations)
    : layers_(layers), configurations_(configurations), devices_(std::move(devices)) {
  PLANSEARCH_CHECK(layers > 0 && configurations > 0 && !devices_.empty());
  const auto count = static_cast<std::size_t>(layers);
  const std::size_t size =
      count * count * devices_.size() * static_cast<std::size_t>(configurations);
  costs_.assign(size, kImpossible);
  successors_.assign(size, kAnySuccessors);
}

std::size_t StageTable::index(int first, int last, int mesh, int configuration) const {
  const auto of = [](int value) { return static_cast<std::size_t>(value); };
  return ((of(first) * of(layers_) + of(last)) * devices_.size() + of(mesh)) * of(configurations_) +
         of(configuration);
}

namespace {

/// A stage that begins at some layer, in one of the ways no other is both cheaper and leaner than.
struct Option {
  int last = 0;
  int mesh = 0;
  int devices = 0;
  int configuration = 0;
  int successors = 0;
  double cost = 0.0;
};

/// The best of the layers from some layer on with so many stages. One with more stages is kept only
/// where it is cheaper: what goes before a partition of fewer stages needs less memory.
struct Label {
  int stages = 0;
  double cost = 0.0;
  int option = 0;  ///< of the first of the stages, by index into the options of its layer
  int rest = -1;   ///< the label of the others
};

class StageProgram {
 public:
  StageProgram(const StageTable& table, int devices)
      : table_(table), devices_(devices), by_stages_(static_cast<std::size_t>(table.layers()) + 1) {
    for (int first = 0; first < table.layers(); ++first) options_.push_back(options_from(first));
    for (const auto& options : options_) {
      for (const Option& option : options) limits_.push_back(option.cost);
    }
    std::ranges::sort(limits_);
    limits_.erase(std::unique(limits_.begin(), limits_.end()), limits_.end());
  }

  [[nodiscard]] const std::vector<double>& limits() const { return limits_; }

  struct Solution {
    double sum = StageTable::kImpossible;
    double longest = 0.0;
    std::vector<StageChoice> stages;
  };

  /// The least sum of stages none of which is longer than `limit`.
  Solution solve(double limit) {
    const auto layers = static_cast<std::size_t>(table_.layers());
    labels_.assign(1, Label{});  // nothing left to place, no device left
    places_.assign((layers + 1) * width(), {});
    places_[layers * width()] = {0, 1};
    for (std::size_t k = layers; k-- > 0;) fill_layer(k, limit);
    return read_off();
  }

 private:
  struct Place {
    int first = 0;
    int count = 0;
  };

  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(devices_) + 1; }

  [[nodiscard]] std::vector<Option> options_from(int first) const {
    std::vector<Option> options;
    std::vector<Option> ends;
    for (int last = first; last < table_.layers(); ++last) {
      for (int mesh = 0; mesh < static_cast<int>(table_.devices().size()); ++mesh) {
        const int devices = table_.devices()[static_cast<std::size_t>(mesh)];
        if (devices > devices_) continue;
        ends.clear();
        for (int c = 0; c < table_.configurations(); ++c) {
          const double cost = table_.cost(first, last, mesh, c);
          const int successors = table_.successors(first, last, mesh, c);
          if (cost < StageTable::kImpossible && successors >= 0) {
            ends.push_back({last, mesh, devices, c, successors, cost});
          }
        }
        std::ranges::stable_sort(ends, {}, &Option::cost);
        int most = -1;
        for (const Option& end : ends) {
          if (end.successors <= most) continue;
          most = end.successors;
          options.push_back(end);
        }
      }
    }
    return options;
  }

  void fill_layer(std::size_t first, double limit) {
    within_.clear();
    for (std::size_t o = 0; o < options_[first].size(); ++o) {
      if (options_[first][o].cost <= limit) within_.push_back(static_cast<int>(o));
    }
    if (within_.empty()) return;
    for (int devices = 1; devices <= devices_; ++devices) fill(first, devices);
  }

  /// All partitions of the layers from `first` on over so many devices.
  void fill(std::size_t first, int devices) {
    int most = 0;
    for (const int o : within_) {
      const Option& option = options_[first][static_cast<std::size_t>(o)];
      if (option.devices > devices) continue;
      const Place place = places_[(static_cast<std::size_t>(option.last) + 1) * width() +
                                  static_cast<std::size_t>(devices - option.devices)];
      for (int l = place.first; l < place.first + place.count; ++l) {
        const Label& rest = labels_[static_cast<std::size_t>(l)];
        if (rest.stages > option.successors) break;
        Label& known = by_stages_[static_cast<std::size_t>(rest.stages) + 1];
        const double cost = option.cost + rest.cost;
        if (known.stages != 0 && known.cost <= cost) continue;
        known = {rest.stages + 1, cost, o, l};
        most = std::max(most, rest.stages + 1);
      }
    }
    Place& place = places_[first * width() + static_cast<std::size_t>(devices)];
    place.first = static_cast<int>(labels_.size());
    double least = StageTable::kImpossible;
    for (int s = 1; s <= most; ++s) {
      Label& label = by_stages_[static_cast<std::size_t>(s)];
      if (label.stages != 0 && label.cost < least) {
        least = label.cost;
        labels_.push_back(label);
        ++place.count;
      }
      label.stages = 0;
    }
  }

  [[nodiscard]] Solution read_off() const {
    Solution solution;
    const Place all = places_[static_cast<std::size_t>(devices_)];
    if (all.count == 0) return solution;
    int at = all.first + all.count - 1;  // the most stages, and the least cost
    solution.sum = labels_[static_cast<std::size_t>(at)].cost;
    for (int first = 0; first < table_.layers();) {
      const Label& label = labels_[static_cast<std::size_t>(at)];
      const Option& option =
          options_[static_cast<std::size_t>(first)][static_cast<std::size_t>(label.option)];
      solution.stages.push_back(
          {first, option.last, option.mesh, option.configuration, option.cost});
      solution.longest = std::max(solution.longest, option.cost);
      first = option.last + 1;
      at = label.rest;
    }
    return solution;
  }

  const StageTable& table_;
  int devices_;
  std::vector<std::vector<Option>> options_;  ///< by first layer
  std::vector<double> limits_;
  std::vector<int> within_;
  std::vector<Label> by_stages_;
  std::vector<Label> labels_;
  std::vector<Place> places_;  ///< by first layer and devices
};

/// Limits of the longest stage between two that were tried. The least sum never rises with the
/// limit, so that both ends bound whatever lies between them.
class LimitSearch {
 public:
  LimitSearch(const StageTable& table, int devices, int micro_batches, double gap)
      : program_(table, devices), repeats_(micro_batches - 1), gap_(gap) {}

  std::optional<StagePartition> run() {
    const std::vector<double>& limits = program_.limits();
    if (limits.empty()) return std::nullopt;
    const auto last = static_cast<std::ptrdiff_t>(limits.size()) - 1;
    const double least = solve(last).sum;
    look_between({-1, StageTable::kImpossible}, {last, least});
    if (best_.stages.empty()) return std::nullopt;
    best_.limits = static_cast<std::int64_t>(limits.size());
    return best_;
  }

 private:
  struct End {
    std::ptrdiff_t limit;
    double sum;
  };

  [[nodiscard]] double limit(std::ptrdiff_t index) const {
    return program_.limits()[static_cast<std::size_t>(index)];
  }

  StageProgram::Solution solve(std::ptrdiff_t index) {
    StageProgram::Solution solution = program_.solve(limit(index));
    ++best_.tried;
    const double total = solution.sum + repeats_ * solution.longest;
    if (!solution.stages.empty() && (best_.stages.empty() || total < best_.total)) {
      best_.total = total;
      best_.stages = solution.stages;
    }
    return solution;
  }

  [[nodiscard]] bool may_improve(double sum, std::ptrdiff_t index) const {
    return best_.stages.empty() || sum + repeats_ * limit(index) < best_.total - gap_;
  }

  void look_between(End low, End high) {
    while (high.limit - low.limit > 1 && low.sum > high.sum) {
      // The largest limit that may still be worth its waiting.
      std::ptrdiff_t most = low.limit;
      for (std::ptrdiff_t step = high.limit - low.limit - 1; step > 0; step /= 2) {
        while (most + step < high.limit && may_improve(high.sum, most + step)) most += step;
      }
      if (most == low.limit) return;
      const std::ptrdiff_t middle = low.limit + (most - low.limit + 1) / 2;
      const StageProgram::Solution solution = solve(middle);
      // Down to its longest stage the solution stays the same.
      std::ptrdiff_t same = middle;
      if (!solution.stages.empty()) {
        const auto& limits = program_.limits();
        same = std::ranges::lower_bound(limits, solution.longest) - limits.begin();
        look_between(low, {same, solution.sum});
      }
      low = {middle, solution.sum};
    }
  }

  StageProgram program_;
  double repeats_;
  double gap_;
  StagePartition best_;
};

}  // namespace

std::optional<StagePartition> best_stages(const StageTable& table, int devices, int micro_batches,
                                          double gap) {
  PLANSEARCH_CHECK(devices > 0 && micro_batches > 0 && gap >= 0.0);
  return LimitSearch(table, devices, micro_batches, gap).run();
}

}  // namespace plansearch
