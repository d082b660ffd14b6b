// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "plan/stages/gangs.hpp"
#include "plansearch/error.hpp"
#include "plansearch/placements.hpp"
#include "question/framework_flags.hpp"
#include "question/resolve_plan.hpp"
#include "schedule/window/block_plan.hpp"

namespace plansearch {
namespace {

std::vector<std::string> block_names(const Network& network) {
  std::vector<std::string> names;
  for (const Block& block : network.blocks) {
    std::string name = plain_block_name(block.name);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

[[noreturn]] void refuse(const Infeasible& bad, const SourceLocation& where, std::string hint) {
  throw InputError(where, fmt::format("{}: {}", to_text(bad.obstacle), bad.detail),
                   std::move(hint));
}

/// The order of the plan itself, as rules of the same form: a micro-batch passes its stops forward
/// and back.
std::vector<BeforeRule> passes_of(std::size_t stops) {
  std::vector<BeforeRule> rules;
  for (NodeId node = 0; node < 2 * stops; node += 2) {
    const bool last = node + 2 == 2 * stops;
    rules.push_back({node, last ? node + 1 : node + 2, 0, 0});
    if (!last) rules.push_back({node + 3, node + 1, 0, 0});
  }
  return rules;
}

/// The rules of an order on the passes of a plan.
class RuleReader {
 public:
  RuleReader(const io::WindowDocument& document, const ParallelPlan& plan, const Network& network)
      : document_(document), names_(pass_names(*plan.assignment, network)) {}

  std::vector<OrderRule> read() {
    std::vector<OrderRule> rules;
    for (const io::RuleEntry& entry : document_.rules) {
      rules.push_back(
          {pass_named(entry, entry.first), pass_named(entry, entry.second), entry.later});
    }
    check(rules);
    return rules;
  }

 private:
  [[nodiscard]] StopPass pass_named(const io::RuleEntry& entry, const std::string& name) const {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) {
      std::string hint = did_you_mean(name, names_);
      if (hint.empty()) hint = fmt::format("one of {}", fmt::join(names_, ", "));
      throw InputError(entry.place.where, fmt::format("there is no pass '{}'", name),
                       std::move(hint));
    }
    const auto at = static_cast<std::size_t>(found - names_.begin());
    return {at / 2, at % 2 == 1};
  }

  /// Rules that lead in a circle, with what the plan itself asks for.
  void check(const std::vector<OrderRule>& rules) const {
    const auto node = [](const StopPass& pass) {
      return static_cast<NodeId>(2 * pass.stop + (pass.backward ? 1 : 0));
    };
    std::vector<BeforeRule> all = passes_of(names_.size() / 2);
    const std::size_t own = all.size();
    for (const OrderRule& rule : rules) {
      all.push_back({node(rule.first), node(rule.second), rule.later, 0});
    }
    std::vector<PlanBlock> blocks;
    for (const std::string& name : names_) blocks.push_back({name, 1, 0});
    const BlockPlan plan =
        make_block_plan({}, 1, std::move(blocks), std::vector<std::vector<int>>(names_.size(), {0}),
                        std::move(all));
    const std::vector<std::size_t> circle = contradiction(plan);
    if (circle.empty()) return;
    std::vector<std::string> texts;
    SourceLocation where;
    for (const std::size_t r : circle) {
      const BeforeRule& rule = plan.rules[r];
      const io::RuleEntry said{names_[rule.first], names_[rule.second], rule.later, {}};
      if (r < own) {
        texts.push_back(to_text(said) + " (as micro-batches pass)");
        continue;
      }
      const SourceLocation& place = document_.rules[r - own].place.where;
      if (where.line == 0) where = place;
      texts.push_back(fmt::format("{} (line {})", to_text(said), place.line));
    }
    throw InputError(where, fmt::format("rules lead in a circle: {}", fmt::join(texts, ", ")),
                     "take one of them out; micro-batches pass every block in sequence");
  }

  const io::WindowDocument& document_;
  std::vector<std::string> names_;
};

}  // namespace

void check_shared(const io::SharedDocument& shared, const Network& network) {
  const std::vector<std::string> names = block_names(network);
  for (std::size_t i = 0; i < shared.blocks.size(); ++i) {
    const std::string& selector = shared.blocks[i];
    if (std::ranges::any_of(names,
                            [&](const std::string& name) { return matches(selector, name); })) {
      continue;
    }
    std::string hint = did_you_mean(selector, names);
    if (hint.empty()) hint = fmt::format("its blocks are {}", fmt::join(names, ", "));
    throw InputError(shared.places[i].where,
                     fmt::format("{} has no block '{}'", network.name, selector), std::move(hint));
  }
}

std::optional<Infeasible> no_shared_devices(const Framework& framework) {
  auto bad = check_shared_devices(framework);
  if (bad) bad->legal_words = run_by([](const Framework& other) { return other.shares_devices; });
  return bad;
}

std::optional<PlanFault> share_devices(const PlanRequest& asked, ResolvedPlan& given) {
  const Problem& problem = given.problem;
  const SourceLocation& where =
      asked.shared ? asked.shared->places.front().where : asked.window->place.where;
  if (auto bad = no_shared_devices(*problem.framework)) return PlanFault{*std::move(bad), where};
  if (asked.shared) {
    check_shared(*asked.shared, *problem.network);
    auto shared = with_gangs(std::move(given.plan), asked.shared->blocks, *problem.network,
                             *problem.framework);
    if (const auto* bad = std::get_if<Infeasible>(&shared)) {
      refuse(*bad, where, "other stages, or leave the blocks on them");
    }
    given.plan = std::get<ParallelPlan>(std::move(shared));
    given.shared = asked.shared->blocks;
  }
  if (!asked.window) return std::nullopt;
  if (given.plan.assignment->replicas > 1 || problem.network->forwards > 1) {
    throw InputError(
        where, fmt::format("{} has no order that is found", to_text(given.plan.order.schedule)),
        "a schedule of one replica, for networks that are passed once");
  }
  given.plan.order.window = true;
  given.plan.order.rules = RuleReader(*asked.window, given.plan, *problem.network).read();
  given.window = asked.window;
  return std::nullopt;
}

}  // namespace plansearch
