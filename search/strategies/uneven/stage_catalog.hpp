// SPDX-License-Identifier: Apache-2.0
// All stages that a plan of one pipeline order can be made of, with their prices; the least time
// that the rest of a pipeline takes, from any layer on.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "plansearch/plan_stages.hpp"
#include "search/strategies/uneven/stage_configs.hpp"

namespace plansearch {

/// One configuration of some layers on a sub-mesh.
struct PricedStage {
  int form = 0;  ///< index into StageCatalog::forms
  StagePrice price;
};

/// A stage of `both` per micro-batch before a rest that takes `rest` from the stage's first output
/// on: it is busy with all micro-batches, and the last gradient of the rest still passes it.
[[nodiscard]] inline Seconds with_rest(Seconds both, int micro_batches, Seconds rest) {
  return std::max(both * static_cast<double>(micro_batches), both + rest);
}

class StageCatalog {
 public:
  /// No stage has a price yet.
  StageCatalog(const StagePricer& pricer, const Problem& problem, PipelineOrder order,
               const std::vector<PlanDegrees>& degrees, const LayerRanges& ranges);

  /// Stages of plans that give equal numbers of layers to stages of one form, or all stages.
  enum class Which : std::uint8_t { Equal, All };
  /// Whether no plan with a stage of so much work per micro-batch can rank.
  using IsLate = std::function<bool(Seconds both)>;
  /// Prices ranges of layers under every form that `limit` and `is_late` leave room for, each once;
  /// none that leaves more layers than the other devices could run in time. Stages that another of their layout equals or beats in time, end of step and memory are left
  /// out. Pointers to stages end here.
  void price(Which which, Bytes limit, const IsLate& is_late, int threads);

  [[nodiscard]] const PipelineOrder& order() const { return order_; }
  [[nodiscard]] int layers() const { return ranges_.layers(); }
  [[nodiscard]] const StageConfig& form(int index) const {
    return forms_[static_cast<std::size_t>(index)];
  }
  /// Forms that hand on the same tiles from the same devices have one layout.
  [[nodiscard]] int layouts() const { return static_cast<int>(layout_forms_.size()); }
  [[nodiscard]] int layout_of(int form) const { return layout_of_[static_cast<std::size_t>(form)]; }
  [[nodiscard]] int devices_of(int layout) const {
    return form(layout_forms_[static_cast<std::size_t>(layout)]).devices();
  }
  /// Layers first .. last in one layout.
  [[nodiscard]] const std::vector<PricedStage>& stages(int first, int last, int layout) const;
  [[nodiscard]] const PlacedRuns& blocks(int first, int last) const;
  /// Layers first .. last under a form.
  [[nodiscard]] StageDescription stage(int first, int last, int form) const;
  /// The plan of these stages. Alike ones lie as the framework orders ranks; others the largest
  /// first, so that none straddles a node it fits into.
  [[nodiscard]] std::variant<ParallelPlan, Infeasible> plan(
      std::vector<StageDescription> stages) const;
  /// Sequences of stages that hold all layers on all devices, whatever fits.
  [[nodiscard]] double plans() const;
  /// No plan of these stages takes less: messages and the end of a step are free.
  [[nodiscard]] Seconds least_time() const;
  /// From a stage that ends with layer `last` to one of another layout, on neighbouring devices:
  /// never more than where the stages end up to lie.
  [[nodiscard]] StageTransfer transfer(int from, int to, int last) const;
  /// The same between stages whose first ranks are these.
  using FirstRanks = std::array<int, 2>;
  [[nodiscard]] StageTransfer transfer(int from, int to, int last, const FirstRanks& first) const;
  struct Placed {
    int first = 0;  ///< layers
    int last = 0;
    int form = 0;
  };
  /// Where stages of these forms begin in a plan; empty where the framework's order of ranks says
  /// it: their meshes are alike.
  [[nodiscard]] std::vector<int> first_ranks(const std::vector<Placed>& stages) const;
  /// By stage of a plan: further reduction of parameters that it shares with others.
  [[nodiscard]] std::vector<Seconds> shared_reductions(const std::vector<Placed>& stages,
                                                       const std::vector<int>& first_ranks) const;

 private:
  void find_layouts();
  /// The last layers of stages that begin with `first`.
  struct Lasts {
    int least = 0;
    int most = -1;
  };
  [[nodiscard]] Lasts asked(Which which, const StageConfig& form, int first) const;
  [[nodiscard]] std::vector<Seconds> shared_along_pipeline(const std::vector<Placed>& stages) const;

  const StagePricer& pricer_;
  const Problem& problem_;
  PipelineOrder order_;
  const LayerRanges& ranges_;
  std::vector<StageConfig> forms_;
  std::vector<int> layout_of_;
  std::vector<int> layout_forms_;  ///< one form of each
  enum class Known : std::uint8_t { No, Priced, Out };
  std::vector<std::vector<Known>> known_;                      ///< by form and range number
  std::vector<std::vector<std::vector<PricedStage>>> stages_;  ///< by range number and layout
  mutable std::mutex transfers_mutex_;
  /// By layouts and last layer, by first ranks.
  mutable std::unordered_map<std::size_t, std::vector<std::pair<FirstRanks, StageTransfer>>>
      transfers_;
  /// By form of the first stage, first ranks and blocks of those that share.
  mutable std::map<std::vector<int>, std::vector<Seconds>> shared_;
};

/// Bounds of the time from the first input of a stage to the end of its last backward, over all
/// configurations of the layers from it on. Admissible for every order that does not split the backward
/// pass.
class StageBounds {
 public:
  /// Plans take all devices. The catalog has its prices, and is referenced.
  StageBounds(const StageCatalog& catalog, int devices, int threads);

  /// The bound of the layers from `first` on over so many devices behind a stage of a layout that
  /// a plan can have there, messages included. Zero where nothing is left, infinite where it cannot
  /// be placed.
  [[nodiscard]] Seconds behind(int layout, int first, int devices) const {
    return behind_[index(layout, first, devices)];
  }

 private:
  [[nodiscard]] std::size_t index(int layout, int first, int devices) const {
    const auto of = [](int value) { return static_cast<std::size_t>(value); };
    return (of(first) * (of(devices_) + 1) + of(devices)) * of(catalog_.layouts()) + of(layout);
  }
  void find_starts();
  void fill_from(int first, int devices);
  void fill_behind(int first, int devices);
  [[nodiscard]] bool starts(int first, int devices) const;
  [[nodiscard]] std::vector<int>& lasts_of(int layout, int first) {
    return lasts_[static_cast<std::size_t>(first) * static_cast<std::size_t>(catalog_.layouts()) +
                  static_cast<std::size_t>(layout)];
  }

  const StageCatalog& catalog_;
  int devices_;
  /// Last layers of the stages that have a price, by first layer and layout.
  std::vector<std::vector<int>> lasts_;
  /// Whether stages before these layers, the last of this layout, can hold all others.
  std::vector<char> starts_;
  std::vector<Seconds> from_;    ///< the stage that begins now has this layout
  std::vector<Seconds> behind_;  ///< a stage of this layout goes before it
};

}  // namespace plansearch
