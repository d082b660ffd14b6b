// SPDX-License-Identifier: Apache-2.0
#include "exchange/networks/block_cutter.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "workload/operator_traits.hpp"

namespace plansearch::io {
namespace {

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
      const bool weighs =
          std::any_of(segment.operators.begin(), segment.operators.end(),
                      [&](DraftId id) { return !draft_.operators[id].parameters.empty(); });
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

std::vector<DraftSegment> cut_blocks(const Draft& draft) {
  return Cutter(draft).run();
}

}  // namespace plansearch::io
