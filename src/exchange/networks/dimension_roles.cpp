// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/ranges.hpp"
#include "exchange/networks/graph_text.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::io {
namespace {

/// Element-wise operators between the scores, their softmax and the values.
constexpr int kLongestChain = 16;

class RoleFinder {
 public:
  explicit RoleFinder(Draft& draft) : draft_(draft) {
    for (DraftId id = 0; id < draft.operators.size(); ++id) {
      const auto& reads = draft.operators[id].reads;
      if (!reads.empty()) readers_.try_emplace(reads.front().tensor, id);
    }
  }

  std::map<AtomId, DimRole> run() {
    if (draft_.axes.batch()) give({*draft_.axes.batch()}, DimRole::Batch);
    for (DraftOperator& op : draft_.operators) look_at(op);
    for (DraftOperator& op : draft_.operators) {
      if (op.row->statistics.over.contains(DimRole::KeySequence)) look_at_scores(op);
    }
    for (const DraftOperator& op : draft_.operators) shared_heads(op);
    for (const DraftTensor& tensor : draft_.tensors) {
      for (const AtomId atom : draft_.axes.leaves(tensor.dims)) {
        if (draft_.axes.is_token(atom)) give({atom}, DimRole::Sequence);
        if (draft_.axes.is_place(atom)) give({atom}, DimRole::Pixel);
      }
    }
    inner_widths();
    return std::move(roles_);
  }

 private:
  /// Who is asked first wins; the same atom may be several things to different operators.
  static int rank(DimRole role) {
    constexpr DimRole kOrder[] = {
        DimRole::Channel,  DimRole::Ffn,   DimRole::Hidden, DimRole::Kernel,   DimRole::Pixel,
        DimRole::Sequence, DimRole::Head,  DimRole::KvHead, DimRole::HeadSize, DimRole::KeySequence,
        DimRole::Position, DimRole::Vocab, DimRole::Batch};
    return static_cast<int>(std::find(std::begin(kOrder), std::end(kOrder), role) -
                            std::begin(kOrder));
  }

  void give(const ImportedAxis& axis, DimRole role) {
    for (const AtomId atom : draft_.axes.leaves(axis)) {
      const auto [known, is_new] = roles_.try_emplace(atom, role);
      if (!is_new && rank(role) > rank(known->second)) known->second = role;
    }
  }

  void look_at(DraftOperator& op) {
    const OperatorTraits& row = *op.row;
    if (row.cost == CostClass::LookUp) {
      give(op.contracted, op.reads.empty() ? DimRole::Position : DimRole::Vocab);
      give(made_by_weight(op), DimRole::Hidden);
    } else if (row.statistics.over.contains(DimRole::Vocab)) {
      give(op.contracted, DimRole::Vocab);
    } else if (row.statistics.over.contains(DimRole::Hidden)) {
      give(op.contracted, DimRole::Hidden);
      if (op.passes != MemoryBound::Plain && !op.contracted.empty()) {
        op.modules |= bit_of(LayerModule::LayerNorm);
      }
    } else if (row.cost == CostClass::FusedAttention) {
      heads(op);
      give(op.features, DimRole::HeadSize);
      op.modules |= bit_of(LayerModule::CoreAttention);
    } else if (row.slides) {
      convolution(op);
    }
  }

  void heads(const DraftOperator& op) {
    give(op.heads, DimRole::Head);
    give(op.rows, DimRole::Sequence);
    give(op.columns, DimRole::KeySequence);
    give(op.contracted, DimRole::HeadSize);
  }

  void convolution(const DraftOperator& op) {
    const ImportedAxis weight = draft_.axes.leaves(op.parameters.front().dims);
    const ImportedAxis made = draft_.axes.leaves(draft_.tensors[op.made.front()].dims);
    const ImportedAxis shared = draft_.axes.leaves(op.contracted);
    for (const AtomId atom : weight) {
      const bool channel = contains(made, atom) || contains(shared, atom);
      give({atom}, channel ? DimRole::Channel : DimRole::Kernel);
    }
  }

  [[nodiscard]] ImportedAxis made_by_weight(const DraftOperator& op) const {
    ImportedAxis made;
    const ImportedAxis shared = draft_.axes.leaves(op.contracted);
    for (const AtomId atom : draft_.axes.leaves(op.parameters.front().dims)) {
      if (!contains(shared, atom)) made.push_back(atom);
    }
    return made;
  }

  /// The product of activations behind a chain of element-wise operators; `through` lists these.
  std::optional<DraftId> product_behind(DraftId tensor, std::vector<DraftId>& through) const {
    for (int steps = 0; steps < kLongestChain; ++steps) {
      const auto made_by = draft_.tensors[tensor].made_by;
      if (!made_by) return std::nullopt;
      const DraftOperator& op = draft_.operators[*made_by];
      if (op.row->cost == CostClass::ActivationProduct) return made_by;
      if (!op.row->goes_by_element() || op.reads.empty()) return std::nullopt;
      through.push_back(*made_by);
      tensor = op.reads.front().tensor;
    }
    return std::nullopt;
  }

  /// Attention that is written out: scores, their softmax over the keys, the sum of values.
  void look_at_scores(DraftOperator& softmax) {
    std::vector<DraftId> through;
    const auto product = product_behind(softmax.reads.front().tensor, through);
    if (!product) return;
    DraftOperator& scores = draft_.operators[*product];
    if (draft_.axes.leaves(scores.columns) != draft_.axes.leaves(softmax.contracted)) return;
    heads(scores);
    const LayerModules core = bit_of(LayerModule::CoreAttention);
    softmax.modules |= core;
    scores.modules |= core;
    for (const DraftId id : through) draft_.operators[id].modules |= core;
    follow(softmax.made.front(), core);
  }

  /// Up to the product with the values.
  void follow(DraftId weights, LayerModules core) {
    for (int steps = 0; steps < kLongestChain; ++steps) {
      const auto reader = readers_.find(weights);
      if (reader == readers_.end()) return;
      DraftOperator& op = draft_.operators[reader->second];
      if (op.row->goes_by_element()) {
        op.modules |= core;
        weights = op.made.front();
      } else if (op.row->cost == CostClass::ActivationProduct) {
        op.modules |= core;
        give(op.columns, DimRole::HeadSize);
        return;
      } else {
        return;
      }
    }
  }

  /// Heads that several heads of queries share.
  void shared_heads(const DraftOperator& op) {
    for (const DraftRead& read : op.reads) {
      for (const DraftIndex& index : read.windows) {
        if (index.divisor == 1 || index.terms.size() != 1) continue;
        for (const AtomId atom : draft_.axes.leaves(index.terms.front().first)) {
          const auto role = roles_.find(atom);
          if (role != roles_.end() && role->second == DimRole::Head) {
            give({index.dim}, DimRole::KvHead);
          }
        }
      }
    }
  }

  /// Finds inner widths: dimensions that one product makes and another contracts, and that are not
  /// the only ones there.
  void inner_widths() {
    std::map<AtomId, int> seen;  // 1: made, 2: contracted
    const auto note = [&](const ImportedAxis& axis, int bit) {
      for (const AtomId atom : draft_.axes.leaves(axis)) seen[atom] |= bit;
    };
    for (const DraftOperator& op : draft_.operators) {
      if (!op.row->multiplies_weight() || op.row->slides) continue;
      note(made_by_weight(op), 1);
      note(op.contracted, 2);
    }
    for (const DraftOperator& op : draft_.operators) {
      if (!op.row->multiplies_weight() || op.row->slides) continue;
      bool beside = false;
      for (const AtomId atom : draft_.axes.leaves(op.contracted)) {
        const auto role = roles_.find(atom);
        beside |= role != roles_.end() && role->second == DimRole::Ffn;
      }
      for (const AtomId atom : made_by_weight(op)) {
        if (seen[atom] == 3 && !beside && !roles_.contains(atom)) roles_[atom] = DimRole::Ffn;
      }
    }
  }

  Draft& draft_;
  std::map<DraftId, DraftId> readers_;  ///< of a tensor: the first operator that reads it first
  std::map<AtomId, DimRole> roles_;
};

/// Operators that the results of the network need.
std::vector<bool> needed(const Draft& draft) {
  std::vector<bool> live(draft.operators.size(), false);
  std::vector<DraftId> open = draft.results;
  std::vector<bool> seen(draft.tensors.size(), false);
  while (!open.empty()) {
    const DraftId tensor = open.back();
    open.pop_back();
    if (seen[tensor]) continue;
    seen[tensor] = true;
    const auto made_by = draft.tensors[tensor].made_by;
    if (!made_by) continue;
    live[*made_by] = true;
    for (const DraftRead& read : draft.operators[*made_by].reads) open.push_back(read.tensor);
  }
  return live;
}

/// Paths of the modules around an operator whose names end in a number, the outermost first.
std::vector<std::string> numbered(const std::string& module) {
  std::vector<std::string> paths;
  for (std::size_t end = 1; end <= module.size(); ++end) {
    const bool whole = end == module.size() || module[end] == '.';
    const char last = module[end - 1];
    if (whole && last >= '0' && last <= '9') paths.push_back(module.substr(0, end));
  }
  return paths;
}

/// The path of a module without its number, which all modules of one list share.
std::string_view list_of(const std::string& path) {
  return std::string_view(path).substr(0, path.find_last_not_of("0123456789") + 1);
}

/// A numbered module: how many products it holds, and what it computes.
struct NumberedModule {
  int products = 0;
  std::uint64_t structure = 0;
  bool holds_repeats = false;
};

class Cutter {
 public:
  explicit Cutter(const Draft& draft) : draft_(draft), live_(needed(draft)) {}

  std::vector<DraftSegment> run() {
    describe_modules();
    find_repeats();
    for (DraftId id = 0; id < draft_.operators.size(); ++id) {
      if (!live_[id]) continue;
      const std::string module = block_of(draft_.operators[id].module);
      if (segments_.empty() || segments_.back().module != module) segments_.push_back({module, {}});
      segments_.back().operators.push_back(id);
    }
    join_small();
    return std::move(segments_);
  }

 private:
  void describe_modules() {
    for (DraftId id = 0; id < draft_.operators.size(); ++id) {
      const DraftOperator& op = draft_.operators[id];
      if (!live_[id]) continue;
      std::uint64_t own =
          static_cast<std::uint64_t>(op.row->kind) * 64 + static_cast<std::uint64_t>(op.passes);
      for (const AtomId atom : draft_.axes.leaves(draft_.tensors[op.made.front()].dims)) {
        own = own * 1'000'003 + static_cast<std::uint64_t>(draft_.axes.extent(atom));
      }
      const bool product = op.launches && op.row->multiplies_weight();
      for (const std::string& path : numbered(op.module)) {
        NumberedModule& module = modules_[path];
        module.products += product ? 1 : 0;
        module.structure = module.structure * 6'364'136'223'846'793'005U + own + 1;
        least_ = std::max(least_, std::min(module.products, 2));
      }
    }
  }

  /// Lists of which two compute the same.
  void find_repeats() {
    std::map<std::pair<std::string_view, std::uint64_t>, int> equal;
    for (const auto& [path, module] : modules_) {
      if (module.products < least_) continue;
      if (++equal[{list_of(path), module.structure}] == 2) repeated_.insert(list_of(path));
    }
    for (const auto& [path, module] : modules_) {
      if (!repeated_.contains(list_of(path))) continue;
      for (const std::string& around : numbered(path)) {
        if (around != path) modules_.at(around).holds_repeats = true;
      }
    }
  }

  [[nodiscard]] std::string block_of(const std::string& module) const {
    std::string found;
    for (const std::string& path : numbered(module)) {
      const NumberedModule& known = modules_.at(path);
      if (known.products < least_) continue;
      if (repeated_.contains(list_of(path))) return path;
      if (found.empty() && !known.holds_repeats) found = path;
    }
    return found;
  }

  /// Joins segments without parameters to the next segment; at the end, to the previous one.
  void join_small() {
    std::vector<DraftSegment> kept;
    std::vector<DraftId> waiting;
    for (DraftSegment& segment : segments_) {
      const bool weighs = std::ranges::any_of(
          segment.operators, [&](DraftId id) { return !draft_.operators[id].parameters.empty(); });
      if (!weighs) {
        waiting.insert(waiting.end(), segment.operators.begin(), segment.operators.end());
        continue;
      }
      segment.operators.insert(segment.operators.begin(), waiting.begin(), waiting.end());
      waiting.clear();
      kept.push_back(std::move(segment));
    }
    if (!waiting.empty()) {
      if (kept.empty()) kept.emplace_back();
      kept.back().operators.insert(kept.back().operators.end(), waiting.begin(), waiting.end());
    }
    segments_ = std::move(kept);
  }

  const Draft& draft_;
  std::vector<bool> live_;
  std::map<std::string, NumberedModule> modules_;
  std::set<std::string_view> repeated_;  ///< into the keys of modules_
  int least_ = 1;
  std::vector<DraftSegment> segments_;
};

}  // namespace

std::map<AtomId, DimRole> dimension_roles(Draft& draft) {
  return RoleFinder(draft).run();
}

std::vector<DraftSegment> cut_blocks(const Draft& draft) {
  return Cutter(draft).run();
}

}  // namespace plansearch::io
