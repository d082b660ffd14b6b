// SPDX-License-Identifier: Apache-2.0
#include "question/framework_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "base/units.hpp"
#include "io/framework/framework_reader.hpp"
#include "plan/degrees/framework_defaults.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"
#include "schedule/table.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch {

namespace {

struct AxisName {
  std::string_view name;
  std::vector<Axis> axes;
};

const std::vector<AxisName>& axis_names() {
  static const std::vector<AxisName> names{{"tp", {Axis::In, Axis::Out, Axis::Depth}},
                                           {"tp-x", {Axis::In}},
                                           {"tp-y", {Axis::Out}},
                                           {"tp-z", {Axis::Depth}},
                                           {"cp", {Axis::Context}},
                                           {"dp", {Axis::Data}},
                                           {"pp", {Axis::Pipeline}},
                                           {"ep", {}}};
  return names;
}

constexpr std::array<std::string_view, kOverlapCount> kOverlapNames{"grad",   "param",   "pipeline",
                                                                    "tensor", "context", "expert"};

const AxisName& axis_name(const std::string& word) {
  for (const AxisName& candidate : axis_names()) {
    if (candidate.name == word) return candidate;
  }
  std::vector<std::string> known;
  for (const AxisName& candidate : axis_names()) known.emplace_back(candidate.name);
  refuse_word("--rank-order", word, known);
}

std::size_t overlap_index(std::string_view word) {
  const auto found = std::ranges::find(kOverlapNames, word);
  if (found == kOverlapNames.end()) {
    refuse_word("--overlap", word, {kOverlapNames.begin(), kOverlapNames.end()});
  }
  return static_cast<std::size_t>(found - kOverlapNames.begin());
}

/// "param=0,grad=1": the kinds that are named, the others as the framework has them.
void apply_overlap_kinds(Framework& framework, std::string_view text) {
  const bool spaces = text.find(',') == std::string_view::npos;
  for (const std::string& word : split(text, spaces ? " " : ",")) {
    const std::size_t equals = word.find('=');
    const std::string_view value = equals == std::string::npos
                                       ? std::string_view()
                                       : std::string_view(word).substr(equals + 1);
    if (value != "0" && value != "1") {
      throw InputError({}, fmt::format("--overlap: '{}' is not a kind with 0 or 1", word),
                       "write param=0,grad=1; or all, none, or a list of kinds");
    }
    OverlapRule& rule = framework.overlap[overlap_index(std::string_view(word).substr(0, equals))];
    if (value == "0") rule = {};
    if (value == "1" && !rule.hides()) rule.share = 1.0;
  }
}

/// "pcie and network" where none of the tiers of the kind has a name that is asked for.
std::string other_names(const Cluster& machine, const std::vector<std::string>& asked,
                        bool fabric) {
  std::vector<std::string> names;
  for (const LinkTier& tier : machine.tiers) {
    if (tier.is_fabric() != fabric) continue;
    const bool known = std::ranges::any_of(asked, [&](const std::string& name) {
      return canonical_name(name) == canonical_name(tier.name);
    });
    // Links inside a node join all of it; narrower ones do not reach its other devices.
    if (known && (fabric || tier.size >= machine.accelerators_per_node)) return {};
    names.push_back(tier.name);
  }
  return fmt::format("{}", fmt::join(names, " and "));
}

/// The parts that the machine has in place of the needed ones; empty: nothing is missing.
std::string missing(const MachineNeed& need, const Cluster& machine) {
  if (!need.links.empty() && machine.accelerators_per_node > 1) {
    const std::string names = other_names(machine, need.links, false);
    if (!names.empty()) {
      return fmt::format("needs {} inside a node, {} has {}", fmt::join(need.links, " or "),
                         machine.name, names);
    }
  }
  if (!need.fabrics.empty()) {
    const std::string names = other_names(machine, need.fabrics, true);
    if (!names.empty()) {
      return fmt::format("needs {} between nodes, {} has {}", fmt::join(need.fabrics, " or "),
                         machine.name, names);
    }
  }
  int linked = 1;
  for (const LinkTier& tier : machine.tiers) {
    if (!tier.is_fabric()) linked = std::max(linked, tier.size);
  }
  if (need.most_linked && linked > *need.most_linked) {
    return fmt::format("links of {} join {} accelerators, more than {}", machine.name, linked,
                       *need.most_linked);
  }
  if (need.format && !machine.accelerator.peak_of(*need.format)) {
    return fmt::format("{} has no {}", machine.accelerator.name, to_text(*need.format));
  }
  return {};
}

constexpr std::string_view kRoutingFlag = "--routing";
constexpr std::string_view kCapacity = "capacity factor";
constexpr std::string_view kRoutingHint =
    "write a kind such as balanced, or the tokens of the fullest rank over the mean, such as 1.3; "
    "behind it \", capacity factor 2\" where tokens beyond it are dropped";

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw InputError({}, fmt::format("{} {}: {}", kRoutingFlag, text, why),
                   std::string(kRoutingHint));
}

/// "capacity factor 2"
double read_capacity(std::string_view part, std::string_view text) {
  if (!part.starts_with(kCapacity))
    refuse(text, fmt::format("'{}' is not a capacity factor", part));
  const auto value = parse_number(std::string(trimmed(part.substr(kCapacity.size()))));
  if (!value || !(*value > 0.0)) refuse(text, "a capacity factor is a number above 0");
  return *value;
}

const RoutingKind& find_kind(const Framework& framework, std::string_view word,
                             std::string_view text) {
  const std::string name = canonical_name(word);
  std::vector<std::string> known;
  for (const RoutingKind& kind : framework.routings) {
    known.push_back(kind.name);
    const bool alias = std::ranges::any_of(
        kind.aliases, [&](const std::string& other) { return canonical_name(other) == name; });
    if (alias || canonical_name(kind.name) == name) return kind;
  }
  const std::string guess = did_you_mean(word, known);
  refuse(text, fmt::format("'{}' is none of {}, nor a number{}{}", word, fmt::join(known, ", "),
                           guess.empty() ? "" : "; ", guess));
}

}  // namespace

void refuse_word(std::string_view flag, std::string_view word,
                 const std::vector<std::string>& known) {
  throw InputError({}, fmt::format("{}: unknown word '{}'", flag, word),
                   fmt::format("it takes {}", fmt::join(known, ", ")));
}

static std::vector<Framework> shipped_frameworks() {
  return io::load_frameworks(std::array{shipped_data().directory() / "frameworks"});
}

const std::vector<Framework>& shipped_programs() {
  static const std::vector<Framework> kPrograms = [] {
    std::vector<Framework> found = shipped_frameworks();
    std::erase_if(found, [](const Framework& framework) { return !framework.has_program; });
    return found;
  }();
  return kPrograms;
}

std::vector<std::string> run_by(const std::function<bool(const Framework&)>& holds) {
  std::vector<std::string> names;
  for (const Framework& framework : shipped_frameworks()) {
    if (holds(framework)) names.push_back("--framework " + framework.name);
  }
  return names;
}

std::string frameworks_that(const std::function<bool(const Framework&)>& can) {
  std::vector<std::string> names;
  for (const Framework& program : shipped_programs()) {
    if (can(program)) names.push_back(program.name);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void take_asked_orders(Framework& framework, const ProblemRequest& request,
                       std::vector<std::string>& notes) {
  if (request.degrees.get(Degree::Pipeline) == 1) return;  // nothing to order
  const std::vector<int>& listed = request.limits.listed(Degree::Schedule);
  std::vector<int> asked = listed;
  if (const auto pinned = request.degrees.get(Degree::Schedule)) asked = {*pinned};
  const auto lists = [](const std::vector<std::string>& orders, std::string_view order) {
    return std::ranges::find(orders, order) != orders.end();
  };
  const auto runs = [&](const Framework& one, std::string_view order) {
    return lists(one.schedules, order) || lists(one.paired_schedules, order);
  };
  std::vector<std::string> missing;
  for (const int order : asked) {
    std::string name(to_text(static_cast<ScheduleId>(order)));
    if (!runs(framework, name)) {
      missing.push_back(std::move(name));
    } else if (!lists(framework.schedules, name)) {
      framework.schedules.push_back(std::move(name));
    }
  }
  if (missing.empty()) return;
  const std::string orders = fmt::format("{}", fmt::join(missing, ", "));
  bool goes_on = true;  // to the next step, devices of every framework that runs them
  const std::string others = frameworks_that([&](const Framework& other) {
    if (std::ranges::none_of(missing, std::bind_front(runs, std::cref(other)))) return false;
    goes_on = goes_on && other.optimizer_start == OptimizerStart::PostValidated;
    return true;
  });
  const std::string hint = others.empty() ? others : fmt::format(" ({} would)", others);
  if (listed.empty() && request.target.empty()) {
    framework.schedules.insert(framework.schedules.end(), missing.begin(), missing.end());
    if (goes_on && !others.empty()) framework.optimizer_start = OptimizerStart::PostValidated;
    notes.push_back(
        fmt::format("{} does not run {}{}: priced as if it did", framework.name, orders, hint));
  } else if (missing.size() < asked.size()) {
    notes.push_back(fmt::format("{} does not run {}{}: left out", framework.name, orders, hint));
  } else if (!listed.empty()) {
    throw InputError({}, fmt::format("{} runs none of {}", framework.name, orders),
                     others.empty() ? others : "frameworks that run one of them: " + others);
  }
}

void note_fixed_degrees(const Framework& framework, const PinnedDegrees& asked,
                        std::vector<std::string>& notes) {
  const PinnedDegrees fixed = fixed_degrees(framework);
  const bool whole = asked.get(Degree::TensorOut) == 1;  // no tensor ranks share a sequence
  for (const DegreeRow& row : degree_table()) {
    if (whole && row.degree == Degree::SequenceParallel) continue;
    const auto always = fixed.get(row.degree);
    if (!always || asked.get(row.degree).value_or(*always) == *always) continue;
    notes.push_back(fmt::format("{} always runs with {} {}: priced so", framework.name, row.key,
                                value_text(row.degree, *always)));
  }
}

void apply_rank_order(Framework& framework, std::string_view text) {
  const bool commas = text.find(',') != std::string_view::npos;
  std::vector<Axis> order;
  for (const std::string& word : split(text, commas ? "," : "-")) {
    for (const Axis axis : axis_name(word).axes) {
      if (std::ranges::find(order, axis) != order.end()) {
        throw InputError({}, fmt::format("--rank-order names {} twice", word));
      }
      order.push_back(axis);
    }
  }
  for (const AxisName& name : axis_names()) {
    for (const Axis axis : name.axes) {
      if (std::ranges::find(order, axis) == order.end()) order.push_back(axis);
    }
  }
  framework.rank_order = std::move(order);
}

std::string rank_order_text(const Framework& framework) {
  std::vector<std::string_view> names;
  for (const Axis axis : framework.rank_order) {
    if (axis == Axis::In || axis == Axis::Depth) continue;
    if (axis == Axis::Out) names.push_back("tp");
    if (axis == Axis::Context) names.push_back("cp");
    if (axis == Axis::Data) names.push_back("dp");
    if (axis == Axis::Pipeline) names.push_back("pp");
  }
  return fmt::format("{}", fmt::join(names, "-"));
}

void apply_overlap(Framework& framework, std::string_view text) {
  if (text.find('=') != std::string_view::npos) return apply_overlap_kinds(framework, text);
  std::array<bool, kOverlapCount> named{};
  if (text == "all") {
    named.fill(true);
  } else if (text != "none") {
    // Answers join the words with '+'.
    const bool joined = text.find('+') != std::string_view::npos;
    for (const std::string& word : split(text, joined ? "+" : ",")) {
      named[overlap_index(word)] = true;
    }
  }
  for (std::size_t i = 0; i < kOverlapCount; ++i) {
    OverlapRule& rule = framework.overlap[i];
    if (!named[i]) rule = {};
    if (named[i] && !rule.hides()) rule.share = 1.0;
  }
}

std::string overlap_text(const Framework& framework) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kOverlapCount; ++i) {
    if (framework.overlap[i].hides()) names.push_back(kOverlapNames[i]);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, "+"));
}

void expose_exchanges_of_lone_experts(Framework& framework, const Network& network) {
  OverlapRule& rule = framework.overlap[static_cast<std::size_t>(Overlap::ExpertAllToAll)];
  const auto exchanges = [](const Operator& op) { return traits(op).exchanges_tokens; };
  const auto attends = [](const Operator& op) {
    return traits(op).multiplies_activations() || traits(op).cost == CostClass::Recurrence;
  };
  const auto alone = [&](const Block& block) {
    return std::ranges::any_of(block.operators, exchanges) &&
           std::ranges::none_of(block.operators, attends);
  };
  if (rule.joined && std::ranges::any_of(network.blocks, alone)) rule = {};
}

void apply_routing(Framework& framework, const ModelDescription& model, Network& network,
                   const std::string& text) {
  if (!network.routing) {
    throw InputError({}, fmt::format("{} {}: {} has no experts", kRoutingFlag, text, model.name),
                     "leave it out");
  }
  const std::size_t comma = text.find(',');
  const std::string_view whole = text;
  const std::string_view word = trimmed(whole.substr(0, comma));
  Routing& routing = *network.routing;
  routing.imbalance = 1.0;
  if (comma != std::string::npos) {
    routing.most = read_capacity(trimmed(whole.substr(comma + 1)), text);
    if (!framework.drops_tokens) {
      throw InputError({},
                       fmt::format("{} {}: {} drops no tokens", kRoutingFlag, text, framework.name),
                       frameworks_that([](const Framework& other) { return other.drops_tokens; }));
    }
  }
  if (const auto load = parse_number(std::string(word))) {
    if (!(*load >= 1.0)) refuse(text, "the fullest rank has at least the mean: 1 or more");
    framework.routing = RoutingKind{.name = fmt::format("{}", *load)};
    routing.spread.reset();
    routing.imbalance = std::min(*load, routing.most.value_or(*load));
    return;
  }
  framework.routing = find_kind(framework, word, text);
  routing.spread = framework.routing->spread;
  if (framework.routing->dealt) {  // a token chooses one group of as many neighbours
    routing.groups = std::max<std::int64_t>(1, routing.experts / routing.top_k);
    routing.top_groups = 1;
    routing.spread.reset();
  }
}

std::string routing_text(const Framework& framework, const Network& network) {
  const Routing& routing = *network.routing;
  std::string text;
  if (framework.routing) {
    text = framework.routing->name;
  } else if (routing.spread) {
    text = framework.routings.front().name;
  } else {
    text = fmt::format("{}", routing.imbalance);
  }
  if (routing.most) text += fmt::format(", {} {}", kCapacity, *routing.most);
  return text;
}

std::optional<std::string> unmet_need(std::span<const MachineNeed> needs, const Cluster& machine) {
  for (const MachineNeed& need : needs) {
    const std::string what = missing(need, machine);
    if (!what.empty()) return fmt::format("{} ({})", what, need.message);
  }
  return std::nullopt;
}

void check_named_kernels(const Network& network, const Framework& framework) {
  for (const Block& block : network.blocks) {
    for (const Operator& op : block.operators) {
      const auto& known = framework.named_kernels;
      const bool priced = op.kernel.empty()
                              ? traits(op).cost != CostClass::Recurrence
                              : std::ranges::any_of(known, [&](const NamedKernel& kernel) {
                                  return kernel.name == op.kernel;
                                });
      if (priced) continue;
      std::vector<std::string> names;
      for (const NamedKernel& kernel : known) {
        if (!contains(names, kernel.name)) names.push_back(kernel.name);
      }
      throw InputError({},
                       fmt::format("{} of {} runs kernel '{}', of which {} has no rates", op.name,
                                   block.name, op.kernel, framework.name),
                       names.empty() ? "name a table in the framework file (recurrences:)"
                                     : fmt::format("known: {}", fmt::join(names, ", ")));
    }
  }
}

}  // namespace plansearch
