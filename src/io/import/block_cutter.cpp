// SPDX-License-Identifier: Apache-2.0
#include "io/import/block_cutter.hpp"

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

bool is_number(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Paths of the numbered modules around an operator, the outermost first.
std::vector<std::string> numbered(const std::string& module) {
  std::vector<std::string> paths;
  std::size_t begin = 0;
  while (begin <= module.size()) {
    const std::size_t dot = std::min(module.find('.', begin), module.size());
    if (is_number(std::string_view(module).substr(begin, dot - begin))) {
      paths.push_back(module.substr(0, dot));
    }
    begin = dot + 1;
  }
  return paths;
}

class Cutter {
 public:
  explicit Cutter(const Draft& draft) : draft_(draft), live_(needed(draft)) {}

  std::vector<DraftSegment> run() {
    count_products();
    least_ = 1;
    for (const auto& [path, count] : products_) least_ = std::max(least_, std::min(count, 2));
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
  void count_products() {
    for (DraftId id = 0; id < draft_.operators.size(); ++id) {
      const DraftOperator& op = draft_.operators[id];
      if (!live_[id] || !op.launches || !traits(op.kind).multiplies_weight()) continue;
      for (const std::string& path : numbered(op.module)) ++products_[path];
    }
  }

  [[nodiscard]] std::string block_of(const std::string& module) const {
    std::string found;
    for (const std::string& path : numbered(module)) {
      const auto count = products_.find(path);
      if (count != products_.end() && count->second >= least_) found = path;
    }
    return found;
  }

  /// What has no parameters belongs to what comes behind it; at the end, to what is in front.
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
  std::map<std::string, int> products_;
  int least_ = 1;
  std::vector<DraftSegment> segments_;
};

}  // namespace

std::vector<DraftSegment> cut_blocks(const Draft& draft) {
  return Cutter(draft).run();
}

}  // namespace plansearch::io
