// SPDX-License-Identifier: Apache-2.0
// Computes:   what rules of blocks ask for together; work, bounds, peaks and faults of a schedule.
// Source:     definitions; shortest contradiction: walks of a growing number of rules, each node
//             with the least shift by which it is reached (Bellman 1958).
// Assumes:    micro-batches pass every block in sequence; memory is taken at the start of a block
//             and given back at its end.
// Units:      ticks; units of memory of the file.
// Checked by: tests/unit/schedule/window_test.cpp
#include "schedule/window/block_plan.hpp"

#include <algorithm>
#include <boost/graph/bellman_ford_shortest_paths.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <optional>
#include <tuple>
#include <utility>

#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch {
namespace {

std::string name_of(const BlockPlan& plan, NodeId node, int micro_batch) {
  return plan.blocks[node].name + " of micro-batch " + std::to_string(micro_batch);
}

/// By node: from the start of a micro-batch to the node's start at least.
std::vector<Ticks> heads_of(const BlockPlan& plan) {
  std::vector<Ticks> heads(plan.blocks.size(), 0);
  for (const NodeId node : plan.sequence) {
    for (const NodeId input : plan.nodes.inputs(node)) {
      heads[node] = std::max(heads[node], heads[input] + plan.blocks[input].time);
    }
  }
  return heads;
}

/// By node: from its end to the end of all that needs it at least.
std::vector<Ticks> tails_of(const BlockPlan& plan) {
  std::vector<Ticks> tails(plan.blocks.size(), 0);
  for (auto node = plan.sequence.rbegin(); node != plan.sequence.rend(); ++node) {
    for (const NodeId input : plan.nodes.inputs(*node)) {
      tails[input] = std::max(tails[input], tails[*node] + plan.blocks[*node].time);
    }
  }
  return tails;
}

/// Rules as a graph of blocks; what an edge weighs is told by its rule.
using Rules =
    boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, std::int64_t>;
template <typename Weight>
Rules graph_of(const BlockPlan& plan, Weight weight) {
  std::vector<std::pair<NodeId, NodeId>> ends;
  std::vector<std::int64_t> weights;
  for (const BeforeRule& rule : plan.rules) {
    ends.emplace_back(rule.first, rule.second);
    weights.push_back(weight(rule));
  }
  return {boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(), weights.begin(),
          plan.blocks.size()};
}

/// Whether any rules lead in a circle without a later micro-batch: a circle of negative length,
/// where every rule is a little shorter than its shift.
bool contradicts_itself(const BlockPlan& plan) {
  const auto count = static_cast<std::int64_t>(plan.blocks.size());
  const Rules rules =
      graph_of(plan, [&](const BeforeRule& rule) { return rule.later * (count + 1) - 1; });
  std::vector<std::int64_t> reached(plan.blocks.size(), 0);  // from anywhere
  return !boost::bellman_ford_shortest_paths(
      rules, plan.blocks.size(),
      boost::weight_map(boost::get(boost::edge_bundle, rules)).distance_map(reached.data()));
}

}  // namespace

BlockPlan make_block_plan(std::string name, int devices, std::vector<PlanBlock> blocks,
                          std::vector<std::vector<int>> devices_of, std::vector<BeforeRule> rules) {
  std::vector<TemplateNode> nodes;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    nodes.push_back({static_cast<int>(i), 0, Phase::Forward, std::move(devices_of[i])});
  }
  std::vector<TemplateEdge> own;
  std::vector<TemplateEdge> with_later;
  for (const BeforeRule& rule : rules) {
    if (rule.later == 0) own.push_back({rule.first, rule.second});
    if (rule.later <= 0) with_later.push_back({rule.first, rule.second});
  }
  auto sequence = TaskTemplate(devices, nodes, with_later).sequence();
  return {std::move(name), TaskTemplate(devices, std::move(nodes), own), std::move(blocks),
          std::move(rules), std::move(sequence)};
}

std::vector<std::size_t> contradiction(const BlockPlan& plan) {
  const std::size_t count = plan.blocks.size();
  constexpr std::size_t kNoRule = ~std::size_t{0};
  struct Reached {
    std::optional<int> later;  ///< least, by so many rules
    std::size_t rule = kNoRule;
  };
  std::vector<std::size_t> shortest;
  if (!contradicts_itself(plan)) return shortest;
  for (NodeId start = 0; start < count; ++start) {
    check_stop();
    // By number of rules and node. Walks longer than the shortest known are skipped.
    std::vector<std::vector<Reached>> reached(1, std::vector<Reached>(count));
    reached[0][start].later = 0;
    const std::size_t most = shortest.empty() ? count : shortest.size() - 1;
    for (std::size_t step = 1; step <= most; ++step) {
      auto& now = reached.emplace_back(count);
      const auto& before = reached[step - 1];
      for (std::size_t r = 0; r < plan.rules.size(); ++r) {
        const BeforeRule& rule = plan.rules[r];
        if (!before[rule.first].later) continue;
        const int later = *before[rule.first].later + rule.later;
        Reached& there = now[rule.second];
        if (!there.later || later < *there.later) there = {later, r};
      }
      if (!now[start].later || *now[start].later > 0) continue;
      shortest.clear();
      NodeId at = start;
      for (std::size_t i = step; i > 0; --i) {
        shortest.push_back(reached[i][at].rule);
        at = plan.rules[shortest.back()].first;
      }
      std::reverse(shortest.begin(), shortest.end());
      break;
    }
  }
  return shortest;
}

std::string rule_text(const std::string& first, const std::string& second, int later) {
  const auto shifted = [](int shift) {
    return shift <= 0 ? std::string() : "(m+" + std::to_string(shift) + ")";
  };
  return first + shifted(-later) + " before " + second + shifted(later);
}

std::vector<Ticks> work_of_devices(const BlockPlan& plan) {
  std::vector<Ticks> work(plan.devices(), 0);
  for (NodeId id = 0; id < plan.blocks.size(); ++id) {
    for (const int device : plan.nodes.node(id).devices) {
      work[static_cast<std::size_t>(device)] += plan.blocks[id].time;
    }
  }
  return work;
}

Ticks least_makespan(const BlockPlan& plan, int micro_batches) {
  PLANSEARCH_CHECK(plan.sequence.size() == plan.blocks.size());  // else rules contradict each other
  const std::vector<Ticks> heads = heads_of(plan);
  const std::vector<Ticks> tails = tails_of(plan);
  const std::vector<Ticks> work = work_of_devices(plan);
  Ticks bound = 0;
  for (std::size_t d = 0; d < work.size(); ++d) {
    std::optional<Ticks> head, tail;
    for (NodeId id = 0; id < plan.blocks.size(); ++id) {
      const auto& devices = plan.nodes.node(id).devices;
      if (std::find(devices.begin(), devices.end(), static_cast<int>(d)) == devices.end()) continue;
      head = std::min(head.value_or(heads[id]), heads[id]);
      tail = std::min(tail.value_or(tails[id]), tails[id]);
      // A block by itself: all its micro-batches one after the other.
      bound = std::max(bound, heads[id] + micro_batches * plan.blocks[id].time + tails[id]);
    }
    bound = std::max(bound, head.value_or(0) + micro_batches * work[d] + tail.value_or(0));
  }
  return bound;
}

BlockStarts unrolled(const BlockPlan& plan, const std::vector<Ticks>& window, Ticks period,
                     int micro_batches) {
  std::vector<std::size_t> rank(plan.blocks.size());
  for (std::size_t i = 0; i < plan.sequence.size(); ++i) rank[plan.sequence[i]] = i;
  std::vector<std::tuple<Ticks, int, std::size_t>> sequence;
  for (NodeId id = 0; id < plan.blocks.size(); ++id) {
    for (int m = 0; m < micro_batches; ++m) {
      sequence.emplace_back(window[id] + m * period, m, rank[id]);
    }
  }
  std::sort(sequence.begin(), sequence.end());
  std::vector<std::vector<BeforeRule>> into(plan.blocks.size());
  for (const BeforeRule& rule : plan.rules) into[rule.second].push_back(rule);
  std::vector<Ticks> free(plan.devices(), 0);
  BlockStarts starts(plan.blocks.size(),
                     std::vector<Ticks>(static_cast<std::size_t>(micro_batches), 0));
  for (const auto& [nominal, m, place] : sequence) {
    const NodeId node = plan.sequence[place];
    Ticks start = 0;
    for (const BeforeRule& rule : into[node]) {
      const int other = m - rule.later;
      if (other < 0 || other >= micro_batches) continue;
      start = std::max(start, starts[rule.first][static_cast<std::size_t>(other)] +
                                  plan.blocks[rule.first].time + rule.delay);
    }
    for (const int d : plan.nodes.node(node).devices) {
      start = std::max(start, free[static_cast<std::size_t>(d)]);
    }
    starts[node][static_cast<std::size_t>(m)] = start;
    for (const int d : plan.nodes.node(node).devices) {
      free[static_cast<std::size_t>(d)] = start + plan.blocks[node].time;
    }
  }
  return starts;
}

std::vector<std::vector<BlockTurn>> runs_by_device(const BlockPlan& plan,
                                                   const BlockStarts& starts) {
  std::vector<std::vector<BlockTurn>> runs(plan.devices());
  for (NodeId id = 0; id < plan.blocks.size(); ++id) {
    for (std::size_t m = 0; m < starts[id].size(); ++m) {
      for (const int device : plan.nodes.node(id).devices) {
        runs[static_cast<std::size_t>(device)].push_back({id, static_cast<int>(m), starts[id][m]});
      }
    }
  }
  for (auto& device : runs) {
    std::stable_sort(device.begin(), device.end(),
                     [](const BlockTurn& a, const BlockTurn& b) { return a.start < b.start; });
  }
  return runs;
}

std::vector<DeviceUse> uses_of(const BlockPlan& plan, const BlockStarts& starts) {
  std::vector<DeviceUse> uses;
  for (const std::vector<BlockTurn>& turns : runs_by_device(plan, starts)) {
    DeviceUse& use = uses.emplace_back();
    if (turns.empty()) continue;
    use.first_start = turns.front().start;
    for (const BlockTurn& turn : turns) {
      use.busy += plan.blocks[turn.node].time;
      use.last_end = std::max(use.last_end, turn.start + plan.blocks[turn.node].time);
    }
  }
  return uses;
}

Ticks makespan_of(const BlockPlan& plan, const BlockStarts& starts) {
  Ticks last = 0;
  for (NodeId id = 0; id < plan.blocks.size(); ++id) {
    for (const Ticks start : starts[id]) last = std::max(last, start + plan.blocks[id].time);
  }
  return last;
}

std::vector<int> peaks_of(const BlockPlan& plan, const BlockStarts& starts) {
  std::vector<int> peaks;
  for (const auto& runs : runs_by_device(plan, starts)) {
    int kept = 0;
    int peak = 0;
    for (const BlockTurn& run : runs) {
      kept += std::max(plan.blocks[run.node].memory, 0);
      peak = std::max(peak, kept);
      kept += std::min(plan.blocks[run.node].memory, 0);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<std::string> start_faults(const BlockPlan& plan, const BlockStarts& starts) {
  std::vector<std::string> faults;
  const auto end_of = [&](NodeId id, std::size_t m) {
    return starts[id][m] + plan.blocks[id].time;
  };
  for (const BeforeRule& rule : plan.rules) {
    for (std::size_t m = 0; m < starts[rule.first].size(); ++m) {
      const auto other = static_cast<std::int64_t>(m) + rule.later;
      if (other < 0 || other >= static_cast<std::int64_t>(starts[rule.second].size())) continue;
      if (starts[rule.second][static_cast<std::size_t>(other)] >=
          end_of(rule.first, m) + rule.delay) {
        continue;
      }
      faults.push_back(name_of(plan, rule.second, static_cast<int>(other)) + " begins before " +
                       name_of(plan, rule.first, static_cast<int>(m)) + " ends");
      break;
    }
  }
  const auto runs = runs_by_device(plan, starts);
  for (std::size_t d = 0; d < runs.size(); ++d) {
    for (std::size_t i = 1; i < runs[d].size(); ++i) {
      const BlockTurn& before = runs[d][i - 1];
      const BlockTurn& run = runs[d][i];
      if (run.start >= before.start + plan.blocks[before.node].time) continue;
      faults.push_back(name_of(plan, run.node, run.micro_batch) + " begins on device " +
                       std::to_string(d) + " while " +
                       name_of(plan, before.node, before.micro_batch) + " runs there");
      break;
    }
  }
  return faults;
}

}  // namespace plansearch
