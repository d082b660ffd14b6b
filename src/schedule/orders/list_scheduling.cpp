// SPDX-License-Identifier: Apache-2.0
// Computes:   orders by list scheduling, and the parts of them that can be repeated.
// Source:     list scheduling (Graham, 1969); the switches are described in list_scheduling.hpp.
// Assumes:    equal stages; messages do not queue.
// Units:      ticks; chunks.
// Checked by: tests/unit/schedule/orders/zb_auto_test.cpp
#include "schedule/orders/list_scheduling.hpp"
#include "schedule/table.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>

#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

constexpr std::size_t kPhases = 3;
constexpr std::size_t kNothing = ~std::size_t{0};

/// A kind of piece: virtual stage and phase.
std::size_t kind_of(std::size_t stage, Phase phase) {
  return stage * kPhases + static_cast<std::size_t>(phase);
}

class Lists {
 public:
  Lists(const PipelineShape& shape, const UniformTimes& times, const ListScheduling& rule,
        Ticks latest)
      : shape_(shape),
        rule_(rule),
        latest_(latest),
        micro_batches_(static_cast<std::size_t>(shape.micro_batches)),
        lengths_{times.forward, times.backward, times.weight},
        transfer_(times.transfer),
        devices_(static_cast<std::size_t>(shape.stages)) {
    const std::span<const StagePlace> places = stage_places(shape);
    stages_ = places.size();
    kinds_.resize(stages_ * kPhases);
    ends_.resize(kinds_.size() * micro_batches_);
    for (std::size_t k = 0; k < stages_; ++k) {
      const auto device = static_cast<std::size_t>(places[k].device);
      devices_[device].stages.push_back(k);
      devices_[device].left +=
          shape.micro_batches * (times.forward + times.backward + times.weight);
      if (k > 0) feed(kind_of(k, Phase::Forward), kind_of(k - 1, Phase::Forward), places);
      const bool last = k + 1 == stages_;
      feed(kind_of(k, Phase::Backward),
           last ? kind_of(k, Phase::Forward) : kind_of(k + 1, Phase::Backward), places);
      feed(kind_of(k, Phase::WeightGradient), kind_of(k, Phase::Backward), places);
    }
    result_.micro_batches = shape.micro_batches;
    result_.pieces.reserve(ends_.size());
  }

  std::optional<ListOrder> run() {
    for (std::size_t d = 0; d < devices_.size(); ++d) events_.push({0, d});
    std::vector<std::size_t> due;
    while (result_.pieces.size() < ends_.size()) {
      PLANSEARCH_CHECK(!events_.empty());
      stop_.check();
      now_ = events_.top().first;
      due.clear();
      for (; !events_.empty() && events_.top().first == now_; events_.pop()) {
        due.push_back(events_.top().second);
      }
      std::sort(due.begin(), due.end(), std::greater<>());
      due.erase(std::unique(due.begin(), due.end()), due.end());
      for (const std::size_t d : due) {
        if (devices_[d].free > now_) continue;
        const std::size_t choice = choose(devices_[d]);
        if (choice == kNothing) continue;
        if (now_ + devices_[d].left > latest_) return std::nullopt;
        start(devices_[d], d, choice);
      }
    }
    for (const Device& device : devices_) {
      result_.makespan = std::max(result_.makespan, device.free);
      result_.span = std::max(result_.span, device.free - device.first_start);
    }
    return std::move(result_);
  }

 private:
  struct Kind {
    std::size_t source = kNothing;  ///< kind of the input
    Ticks lag = 0;                  ///< of its message
    std::size_t count = 0;          ///< started so far
    std::size_t reader = kNothing;  ///< another device that waits for this
  };
  struct Device {
    std::vector<std::size_t> stages;  ///< in the order they are passed
    Ticks free = 0;
    Ticks first_start = -1;
    Ticks left = 0;   ///< work
    int weights = 0;  ///< run so far, all chunks
    int kept = 0;     ///< chunks
  };
  /// The state before a forward of the first virtual stage.
  struct Cut {
    std::size_t piece = 0;
    int micro_batches = 0;
    Ticks time = 0;
  };

  [[nodiscard]] int count(std::size_t stage, Phase phase) const {
    return static_cast<int>(kinds_[kind_of(stage, phase)].count);
  }
  void feed(std::size_t kind, std::size_t source, std::span<const StagePlace> places) {
    kinds_[kind].source = source;
    const int device = places[kind / kPhases].device;
    if (places[source / kPhases].device == device) return;
    kinds_[kind].lag = transfer_;
    kinds_[source].reader = static_cast<std::size_t>(device);
  }

  /// When the input of the kind's next piece is there; -1 where that is not known.
  [[nodiscard]] Ticks arrival(const Kind& kind) const {
    if (kind.count >= micro_batches_) return -1;
    if (kind.source == kNothing) return 0;
    if (kind.count >= kinds_[kind.source].count) return -1;
    return ends_[kind.source * micro_batches_ + kind.count] + kind.lag;
  }

  [[nodiscard]] bool fits(const Device& device, std::size_t k) const {
    const int forwards = count(k, Phase::Forward);
    const int ahead = forwards - count(k, Phase::Backward);
    const auto distance = static_cast<int>(stages_ - k);
    if (rule_.ahead == Ahead::RoundTrip && ahead >= 2 * distance - 1) return false;
    if (k != device.stages.front()) return true;  // room was kept for it
    return shape_.chunks * (forwards + 1) - device.weights <= shape_.cap() * shape_.chunks;
  }

  /// Which kind of piece a device runs now.
  [[nodiscard]] std::size_t choose(const Device& device) const {
    std::size_t forward = kNothing, backward = kNothing, weight = kNothing;
    Ticks next = -1;  // what is about to arrive
    const auto consider = [&](std::size_t kind, std::size_t& slot) {
      const Ticks at = arrival(kinds_[kind]);
      if (at < 0) return;
      if (at <= now_) {
        slot = kind;
      } else if (next < 0 || at < next) {
        next = at;
      }
    };
    for (const std::size_t k : device.stages) {
      if (fits(device, k)) consider(kind_of(k, Phase::Forward), forward);  // the furthest along
      if (backward == kNothing) consider(kind_of(k, Phase::Backward), backward);
      const std::size_t own = kind_of(k, Phase::WeightGradient);
      if (weight == kNothing && arrival(kinds_[own]) >= 0 && arrival(kinds_[own]) <= now_) {
        weight = own;
      }
    }
    const bool backward_first = rule_.prefer == Prefer::Backward;
    const std::size_t first = backward_first ? backward : forward;
    if (first != kNothing) return first;
    const std::size_t second = backward_first ? forward : backward;
    if (second != kNothing) return second;
    const bool late = rule_.filler == Filler::WhereItFits && next >= 0 && next < now_ + lengths_[2];
    return late ? kNothing : weight;
  }

  void start(Device& device, std::size_t d, std::size_t choice) {
    if (choice == 0) note_cut();
    Kind& kind = kinds_[choice];
    const auto phase = static_cast<Phase>(choice % kPhases);
    if (device.first_start < 0) device.first_start = now_;
    device.free = now_ + lengths_[choice % kPhases];
    device.left -= lengths_[choice % kPhases];
    ends_[choice * micro_batches_ + kind.count++] = device.free;
    if (phase == Phase::Forward) result_.peak = std::max(result_.peak, ++device.kept);
    if (phase == Phase::WeightGradient) {
      ++device.weights;
      --device.kept;
    }
    result_.pieces.push_back({static_cast<std::uint32_t>(choice / kPhases), phase});
    events_.push({device.free, d});
    if (kind.reader != kNothing) events_.push({device.free + transfer_, kind.reader});
  }

  /// A block lies between two cuts with as many pieces of every kind under way.
  void note_cut() {
    const std::size_t passed = kinds_[0].count;
    std::vector<std::size_t> behind;
    for (const Kind& kind : kinds_) behind.push_back(passed - kind.count);
    const Cut cut{result_.pieces.size(), static_cast<int>(passed), now_};
    const auto [known, fresh] = cuts_.try_emplace(std::move(behind), cut);
    if (fresh) return;
    const Cut& then = known->second;
    result_.blocks.push_back(
        {then.piece, cut.piece, cut.micro_batches - then.micro_batches, cut.time - then.time});
    known->second = cut;
  }

  const PipelineShape& shape_;
  const ListScheduling& rule_;
  Ticks latest_;
  std::size_t micro_batches_;
  Ticks lengths_[kPhases];
  Ticks transfer_;
  std::size_t stages_ = 0;
  std::vector<Device> devices_;
  std::vector<Kind> kinds_;
  std::vector<Ticks> ends_;  ///< by kind and micro-batch, of those that have started
  using Event = std::pair<Ticks, std::size_t>;  ///< something may start on a device
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::map<std::vector<std::size_t>, Cut> cuts_;  ///< by how far every kind is behind
  Ticks now_ = 0;
  OccasionalStop stop_{64};
  ListOrder result_;
};

}  // namespace

std::vector<ListPiece> ListOrder::repeated(const ListBlock& block, int times) const {
  const auto at = [&](std::size_t i) { return pieces.begin() + static_cast<std::ptrdiff_t>(i); };
  std::vector<ListPiece> result(pieces.begin(), at(block.begin));
  for (int i = 0; i < times; ++i) result.insert(result.end(), at(block.begin), at(block.end));
  result.insert(result.end(), at(block.end), pieces.end());
  return result;
}

std::optional<ListOrder> list_order(const PipelineShape& shape, const UniformTimes& times,
                                    const ListScheduling& rule, Ticks latest) {
  return Lists(shape, times, rule, latest).run();
}

ComputeOrder order_of_pieces(const PipelineShape& shape, const std::vector<ListPiece>& pieces) {
  ComputeOrder order = empty_order(shape);
  order.devices.resize(static_cast<std::size_t>(shape.stages));
  std::vector<int> counts(order.pipeline.size() * kPhases, 0);
  for (const ListPiece& piece : pieces) {
    const StagePlace& place = order.pipeline[piece.stage];
    order.devices[static_cast<std::size_t>(place.device)].push_back(
        {place.chunk, counts[kind_of(piece.stage, piece.phase)]++, piece.phase});
  }
  order.micro_batches = counts.front();
  return order;
}

ComputeOrder split(ComputeOrder order) {
  order.weight_gradients = WeightGradients::Separate;
  for (auto& steps : order.devices) {
    std::vector<ComputeStep> spelled;
    for (const ComputeStep& step : steps) {
      spelled.push_back(step);
      if (step.phase != Phase::Backward) continue;
      spelled.push_back({step.chunk, step.micro_batch, Phase::WeightGradient, true});
    }
    steps = std::move(spelled);
  }
  return order;
}

}  // namespace plansearch
