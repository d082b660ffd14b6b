// SPDX-License-Identifier: Apache-2.0
// Computes: prices of all stages that a planner may choose from; bounds of the rest of a pipeline,
//           G(k, d) = min over the stage k..j on n devices of max(B t, t + c + G(j + 1, d - n)).
// Source: evaluate/step/stage_price.hpp; head and work of the order's bound
//         (schedule/simulation/closed_form.hpp), written as a recursion.
//         Bounds before prices: the rest of the layers takes its least work under any form, shared
//         out evenly among the rest of the devices.
// Assumes: the time of a step does not fall, nor its memory, when a stage gets longer or larger;
//          bounds assume nothing of memory, and messages as if stages that could share a node did.
// Units: seconds, bytes.
// Checked by: tests/unit/search/uneven_search_test.cpp
#include "search/strategies/uneven/stage_catalog.hpp"

#include <numeric>
#include <tuple>

#include "base/parallel.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

/// Degrees that decide the tiles that devices hold between stages, and where.
auto layout_key(const PlanDegrees& d) {
  return std::tuple(d.data, d.tensor_in, d.tensor_out, d.tensor_depth, d.context,
                    d.sequence_parallel);
}

bool at_most(const StagePrice& a, const StagePrice& b) {
  return a.forward <= b.forward && a.backward <= b.backward && a.reduction <= b.reduction &&
         a.after <= b.after && a.fixed <= b.fixed && a.activations <= b.activations;
}

/// Keeps the front; of equal stages the first.
void add_to_front(PricedStage stage, std::vector<PricedStage>& front) {
  for (const PricedStage& known : front) {
    if (at_most(known.price, stage.price)) return;
  }
  std::erase_if(front, [&](const PricedStage& known) { return at_most(stage.price, known.price); });
  front.push_back(std::move(stage));
}

/// First ranks of stages of so many devices, the largest first.
std::vector<int> largest_first(const std::vector<int>& devices) {
  std::vector<std::size_t> order(devices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return devices[a] > devices[b]; });
  std::vector<int> first(devices.size());
  int next = 0;
  for (const std::size_t s : order) {
    first[s] = next;
    next += devices[s];
  }
  return first;
}

bool are_equal(const std::vector<int>& devices) {
  return std::equal(devices.begin() + 1, devices.end(), devices.begin());
}

}  // namespace

StageCatalog::StageCatalog(const StagePricer& pricer, const Problem& problem, PipelineOrder order,
                           const std::vector<PlanDegrees>& degrees, const LayerRanges& ranges)
    : pricer_(pricer), problem_(problem), order_(order), ranges_(ranges) {
  for (const PlanDegrees& d : degrees) forms_.push_back(pricer.form(d));
  find_layouts();
  const auto count = static_cast<std::size_t>(ranges_.size());
  known_.assign(forms_.size(), std::vector<Known>(count, Known::No));
  stages_.assign(count, std::vector<std::vector<PricedStage>>(layout_forms_.size()));
}

void StageCatalog::find_layouts() {
  for (std::size_t f = 0; f < forms_.size(); ++f) {
    const auto same = std::find_if(layout_forms_.begin(), layout_forms_.end(), [&](int known) {
      return layout_key(form(known).degrees) == layout_key(forms_[f].degrees);
    });
    layout_of_.push_back(static_cast<int>(same - layout_forms_.begin()));
    if (same == layout_forms_.end()) layout_forms_.push_back(static_cast<int>(f));
  }
}

StageCatalog::Lasts StageCatalog::asked(Which which, const StageConfig& form, int first) const {
  const int end = layers() - 1;
  // All devices are for a stage of all layers.
  if (form.devices() == problem_.gpus) return first == 0 ? Lasts{end, end} : Lasts{};
  if (which == Which::All) return {first, first == 0 ? end - 1 : end};
  const int stages = problem_.gpus / form.devices();
  const int each = layers() / stages;
  const bool divides = stages * form.devices() == problem_.gpus && each * stages == layers();
  if (!divides || first % each != 0) return {};
  return {first + each - 1, first + each - 1};
}

namespace {

/// The least time of one micro-batch through one copy of each block, in any stage.
std::vector<Seconds> least_passes(const ClassProfile& profile) {
  std::vector<Seconds> least;
  const Seconds none;
  for (const BlockProfile& block : profile.blocks) {
    least.push_back(block.forward.device() + block.backward.device() + block.recompute.device() +
                    std::min(block.forward_edges.device(), none) +
                    std::min(block.backward_edges.device(), none));
  }
  if (profile.kept == nullptr) return least;
  const std::vector<Seconds> kept = least_passes(*profile.kept);
  std::ranges::transform(least, kept, least.begin(),
                         [](Seconds a, Seconds b) { return std::min(a, b); });
  return least;
}

/// Least work of layers before they have a price.
class LeastWork {
 public:
  LeastWork(const std::vector<StageConfig>& forms, const LayerRanges& ranges) : ranges_(ranges) {
    for (const StageConfig& form : forms) passes_.push_back(least_passes(*form.profile));
    for (int layer = 0; layer < ranges.layers(); ++layer) {
      Seconds least(std::numeric_limits<double>::infinity());
      for (std::size_t f = 0; f < forms.size(); ++f) {
        least = std::min(least, of(f, ranges.number(layer, layer)) * forms[f].devices());
      }
      until_.push_back(until_.back() + least);
    }
  }

  /// One micro-batch through a range under a form.
  [[nodiscard]] Seconds of(std::size_t form, int range) const {
    Seconds work;
    for (const BlockRun& run : ranges_.runs(range).blocks) {
      work += passes_[form][run.block] * static_cast<double>(run.count);
    }
    return work;
  }

  /// By first layer of a stage the first of its last layers with which so many other devices are
  /// in time with the other layers.
  [[nodiscard]] std::vector<int> shortest(int others, const StageCatalog::IsLate& is_late) const {
    std::vector<int> lasts;
    for (int first = 0; first < ranges_.layers(); ++first) {
      int last = first;
      if (first > 0) last = std::max(last, lasts.back());
      while (last < ranges_.layers() && is_late(beside(first, last) / others)) ++last;
      lasts.push_back(last);
    }
    return lasts;
  }

 private:
  /// All layers but these, times devices.
  [[nodiscard]] Seconds beside(int first, int last) const {
    return until_[static_cast<std::size_t>(first)] +
           (until_.back() - until_[static_cast<std::size_t>(last) + 1]);
  }

  const LayerRanges& ranges_;
  std::vector<std::vector<Seconds>> passes_;  ///< by form and block
  std::vector<Seconds> until_{Seconds(0)};    ///< under the best form of each layer, times devices
};

}  // namespace

/// Nothing that is too large, or late, is so no longer with more layers.
void StageCatalog::price(Which which, Bytes limit, const IsLate& is_late, int threads) {
  const LeastWork work(forms_, ranges_);
  std::map<int, std::vector<int>> shortest;  // by devices
  for (const StageConfig& form : forms_) {
    const int others = problem_.gpus - form.devices();
    const auto [lasts, is_new] = shortest.try_emplace(form.devices());
    if (is_new && others > 0) lasts->second = work.shortest(others, is_late);
  }
  std::vector<std::vector<std::pair<std::size_t, StagePrice>>> found(forms_.size());
  parallel_for(forms_.size(), threads, [&](std::size_t f) {
    const std::vector<int>& least = shortest.at(forms_[f].devices());
    for (int first = 0; first < layers(); ++first) {
      Lasts lasts = asked(which, forms_[f], first);
      if (!least.empty()) {
        lasts.least = std::max(lasts.least, least[static_cast<std::size_t>(first)]);
      }
      for (int last = lasts.least; last <= lasts.most; ++last) {
        const int range = ranges_.number(first, last);
        Known& known = known_[f][static_cast<std::size_t>(range)];
        if (known == Known::Priced) continue;
        if (is_late(work.of(f, range))) known = Known::Out;
        if (known == Known::Out) break;
        const StagePrice price = pricer_.price(forms_[f], ranges_.runs(range));
        known = price.fixed + price.activations > limit || is_late(price.both()) ? Known::Out
                                                                                 : Known::Priced;
        if (known == Known::Out) break;
        found[f].emplace_back(range, price);
      }
    }
  });
  for (std::size_t f = 0; f < forms_.size(); ++f) {
    for (const auto& [range, price] : found[f]) {
      add_to_front({static_cast<int>(f), price},
                   stages_[range][static_cast<std::size_t>(layout_of_[f])]);
    }
  }
}

const std::vector<PricedStage>& StageCatalog::stages(int first, int last, int layout) const {
  const auto content = static_cast<std::size_t>(ranges_.number(first, last));
  return stages_[content][static_cast<std::size_t>(layout)];
}

const PlacedRuns& StageCatalog::blocks(int first, int last) const {
  return ranges_.runs(ranges_.number(first, last));
}

StageDescription StageCatalog::stage(int first, int last, int form) const {
  StageDescription stage{this->form(form).degrees, {blocks(first, last).blocks}, {}};
  stage.degrees.pipeline = 1;
  return stage;
}

std::variant<ParallelPlan, Infeasible> StageCatalog::plan(
    std::vector<StageDescription> stages) const {
  std::vector<int> devices;
  for (const StageDescription& stage : stages) devices.push_back(stage.degrees.devices());
  const std::vector<int> first = largest_first(devices);
  // The order of ranks says where stages of one size lie.
  for (std::size_t s = 0; s < stages.size() && !are_equal(devices); ++s) {
    stages[s].first_rank = first[s];
  }
  return plan_of_stages(stages, {order_.schedule, order_.micro_batches}, problem_.global_batch,
                        *problem_.framework, *problem_.network);
}

double StageCatalog::plans() const {
  const auto devices = static_cast<std::size_t>(problem_.gpus);
  std::vector<double> forms(devices + 1, 0.0);  // by devices
  for (const StageConfig& form : forms_) ++forms[static_cast<std::size_t>(form.devices())];
  double plans = forms[devices];
  std::vector<double> ways(devices + 1, 0.0);  // to fill devices with so many stages
  ways[0] = 1.0;
  double cuts = 1.0;  // of the layers into so many parts
  for (int stages = 1; stages <= layers(); ++stages) {
    std::vector<double> more(devices + 1, 0.0);
    for (std::size_t used = 0; used <= devices; ++used) {
      for (std::size_t n = 1; n <= used && n < devices; ++n)
        more[used] += forms[n] * ways[used - n];
    }
    ways = std::move(more);
    plans += cuts * ways[devices];
    cuts *= static_cast<double>(layers() - stages) / stages;
  }
  return plans;
}

Seconds StageCatalog::least_time() const {
  const Seconds never(std::numeric_limits<double>::infinity());
  const auto devices = static_cast<std::size_t>(problem_.gpus);
  std::vector<std::vector<Seconds>> stage(stages_.size(),  // by range number and devices
                                          std::vector<Seconds>(devices + 1, never));
  for (std::size_t range = 0; range < stages_.size(); ++range) {
    for (int layout = 0; layout < layouts(); ++layout) {
      Seconds& least = stage[range][static_cast<std::size_t>(devices_of(layout))];
      for (const PricedStage& priced : stages_[range][static_cast<std::size_t>(layout)]) {
        least = std::min(least, priced.price.both());
      }
    }
  }
  std::vector<std::vector<Seconds>> rest(static_cast<std::size_t>(layers()) + 1,
                                         std::vector<Seconds>(devices + 1, never));
  rest.back().front() = Seconds(0);
  for (int first = layers() - 1; first >= 0; --first) {
    for (int last = first; last < layers(); ++last) {
      const auto& own = stage[static_cast<std::size_t>(ranges_.number(first, last))];
      const auto& behind = rest[static_cast<std::size_t>(last) + 1];
      auto& all = rest[static_cast<std::size_t>(first)];
      for (std::size_t taken = 1; taken <= devices; ++taken) {
        if (own[taken] == never) continue;
        for (std::size_t left = 0; left + taken <= devices; ++left) {
          if (behind[left] == never) continue;
          Seconds& known = all[taken + left];
          known = std::min(known, with_rest(own[taken], order_.micro_batches, behind[left]));
        }
      }
    }
  }
  return rest.front().back();
}

StageTransfer StageCatalog::transfer(int from, int to, int last) const {
  // Stages that fit into one node may share it; others never do.
  const int node = problem_.cluster->accelerators_per_node;
  const int taken = devices_of(from);
  const int needed = devices_of(to);
  const int unit = taken + needed <= node ? needed : std::max(needed, node);
  return transfer(from, to, last, {0, (taken + unit - 1) / unit * unit});
}

StageTransfer StageCatalog::transfer(int from, int to, int last, const FirstRanks& first) const {
  const auto of = [](int value) { return static_cast<std::size_t>(value); };
  const std::size_t place =
      (of(ranges_.number(last, last)) * of(layouts()) + of(to)) * of(layouts()) + of(from);
  {
    const std::lock_guard lock(transfers_mutex_);
    for (const auto& [ranks, known] : transfers_[place]) {
      if (ranks == first) return known;
    }
  }
  check_stop();
  const StageTransfer priced = pricer_.transfer(
      form(layout_forms_[of(from)]), form(layout_forms_[of(to)]), blocks(last, last), first);
  const std::lock_guard lock(transfers_mutex_);
  transfers_[place].emplace_back(first, priced);
  return priced;
}

std::vector<int> StageCatalog::first_ranks(const std::vector<Placed>& stages) const {
  const DeviceMesh& mesh = form(stages.front().form).mesh;
  const bool alike = std::all_of(stages.begin(), stages.end(), [&](const Placed& other) {
    return form(other.form).mesh == mesh;
  });
  if (alike) return {};
  std::vector<int> devices;
  for (const Placed& stage : stages) devices.push_back(form(stage.form).devices());
  return largest_first(devices);
}

/// Stages of equal meshes lie along the pipeline axis of one mesh.
std::vector<Seconds> StageCatalog::shared_along_pipeline(const std::vector<Placed>& stages) const {
  PlanDegrees whole = form(stages.front().form).degrees;
  whole.pipeline = static_cast<int>(stages.size());
  DeviceMesh mesh = make_device_mesh(whole, problem_.framework->rank_order);
  const int stride = mesh.neighbour_distance(Axis::Pipeline);
  mesh.ranks = problem_.gpus;
  std::vector<StageConfig> forms;
  for (const Placed& stage : stages) {
    forms.push_back(form(stage.form));
    forms.back().mesh = mesh;
  }
  std::vector<PlacedStage> placed;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    placed.push_back(
        {&forms[s], &blocks(stages[s].first, stages[s].last), static_cast<int>(s) * stride});
  }
  return pricer_.shared_reductions(placed);
}

std::vector<Seconds> StageCatalog::shared_reductions(const std::vector<Placed>& stages,
                                                     const std::vector<int>& first_ranks) const {
  const StageConfig& front = form(stages.front().form);
  const bool along = first_ranks.empty();
  std::vector<int> key{stages.front().form, along ? static_cast<int>(stages.size()) : 0};
  std::vector<std::size_t> asked;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::size_t before = key.size();
    for (const BlockRun& run : blocks(stages[s].first, stages[s].last).blocks) {
      if (pricer_.shares(front, {run})) key.push_back(static_cast<int>(run.block));
    }
    const bool shares = key.size() > before;
    if (shares) key.push_back(-1 - (along ? static_cast<int>(s) : first_ranks[s]));
    if (shares || s == 0) asked.push_back(s);
  }
  std::vector<Seconds> reductions(stages.size());
  const std::lock_guard lock(transfers_mutex_);
  auto [known, is_new] = shared_.try_emplace(std::move(key));
  if (is_new && along) {
    const std::vector<Seconds> all = shared_along_pipeline(stages);
    for (const std::size_t s : asked) known->second.push_back(all[s]);
  } else if (is_new) {
    std::vector<PlacedStage> placed;
    for (const std::size_t s : asked) {
      placed.push_back(
          {&form(stages[s].form), &blocks(stages[s].first, stages[s].last), first_ranks[s]});
    }
    known->second = pricer_.shared_reductions(placed);
  }
  for (std::size_t i = 0; i < asked.size(); ++i) reductions[asked[i]] = known->second[i];
  return reductions;
}

namespace {

const Seconds kNever(std::numeric_limits<double>::infinity());

}  // namespace

StageBounds::StageBounds(const StageCatalog& catalog, int devices, int threads)
    : catalog_(catalog), devices_(devices) {
  behind_.assign(index(0, catalog.layers() + 1, 0), kNever);
  for (int layout = 0; layout < catalog.layouts(); ++layout) {
    behind_[index(layout, catalog.layers(), 0)] = Seconds(0);
  }
  find_starts();
  for (int first = catalog.layers() - 1; first > 0; --first) {
    from_.assign(index(0, 1, 0), kNever);
    parallel_for(static_cast<std::size_t>(devices), threads,
                 [&](std::size_t d) { fill_from(first, static_cast<int>(d) + 1); });
    parallel_for(static_cast<std::size_t>(devices), threads,
                 [&](std::size_t d) { fill_behind(first, static_cast<int>(d) + 1); });
  }
}

/// Stages of all layers before the ones that begin behind them.
void StageBounds::find_starts() {
  const auto layouts = static_cast<std::size_t>(catalog_.layouts());
  lasts_.resize(static_cast<std::size_t>(catalog_.layers()) * layouts);
  starts_.assign(behind_.size(), 0);
  std::ranges::fill_n(starts_.begin() + static_cast<std::ptrdiff_t>(index(0, 0, devices_)),
                      catalog_.layouts(), 1);
  for (int first = 0; first < catalog_.layers(); ++first) {
    for (int layout = 0; layout < catalog_.layouts(); ++layout) {
      std::vector<int>& lasts = lasts_of(layout, first);
      for (int last = first; last < catalog_.layers(); ++last) {
        if (!catalog_.stages(first, last, layout).empty()) lasts.push_back(last);
      }
    }
    for (int devices = 1; devices <= devices_; ++devices) {
      if (!starts(first, devices)) continue;
      for (int layout = 0; layout < catalog_.layouts(); ++layout) {
        const int left = devices - catalog_.devices_of(layout);
        if (left < 0) continue;
        for (const int last : lasts_of(layout, first)) starts_[index(layout, last + 1, left)] = 1;
      }
    }
  }
}

/// Whether any stage can begin there with so many devices left.
bool StageBounds::starts(int first, int devices) const {
  const auto begin = starts_.begin() + static_cast<std::ptrdiff_t>(index(0, first, devices));
  return std::find(begin, begin + catalog_.layouts(), 1) != begin + catalog_.layouts();
}

void StageBounds::fill_from(int first, int devices) {
  if (!starts(first, devices)) return;
  for (int layout = 0; layout < catalog_.layouts(); ++layout) {
    const int left = devices - catalog_.devices_of(layout);
    if (left < 0) continue;
    Seconds& best = from_[index(layout, 0, devices)];
    for (const int last : lasts_of(layout, first)) {
      const Seconds rest = behind(layout, last + 1, left);
      if (rest == kNever) continue;
      for (const PricedStage& stage : catalog_.stages(first, last, layout)) {
        best = std::min(best, with_rest(stage.price.both(), catalog_.order().micro_batches, rest));
      }
    }
  }
}

void StageBounds::fill_behind(int first, int devices) {
  std::vector<std::pair<Seconds, int>> rests;  // of the layouts behind, the least first
  for (int next = 0; next < catalog_.layouts(); ++next) {
    const Seconds rest = from_[index(next, 0, devices)];
    if (rest != kNever) rests.emplace_back(rest, next);
  }
  std::sort(rests.begin(), rests.end());
  for (int layout = 0; layout < catalog_.layouts(); ++layout) {
    if (starts_[index(layout, first, devices)] == 0) continue;
    Seconds& known = behind_[index(layout, first, devices)];
    for (const auto& [rest, next] : rests) {
      if (rest >= known) break;
      const StageTransfer transfer = catalog_.transfer(layout, next, first - 1);
      known = std::min(known, transfer.activation + transfer.gradient + rest);
    }
  }
}

}  // namespace plansearch
