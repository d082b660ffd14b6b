// SPDX-License-Identifier: Apache-2.0
#include "io/plan/blocks_document.hpp"
#include "base/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/names.hpp"
#include "io/document/document.hpp"
#include "io/plan/plan_document.hpp"

namespace plansearch::io {
namespace {

constexpr std::string_view kBlocksSchema = "plansearch/blocks/v1";
constexpr int kMostDevices = 4096;
constexpr std::size_t kMostBlocks = 500;
constexpr std::size_t kMostRules = 5'000;
constexpr int kMostBlockBatches = 10'000;
constexpr int kMostMemory = 1'000'000;
/// Times are multiples of a millionth of their unit.
constexpr double kFinest = 1e6;
constexpr double kLongest = 1e9;

Ticks read_time(const Node& node, bool zero) {
  const double units = node.number();
  const double ticks = std::round(units * kFinest);
  const bool whole = std::abs(units * kFinest - ticks) < 1e-3;
  if (!(units <= kLongest) || !whole || ticks < (zero ? 0.0 : 1.0)) {
    node.fail(fmt::format("'{}' is not a time", node.text()),
              fmt::format("a number {} zero, such as 3 or 0.25, in any unit of time, of at most 6 "
                          "decimals",
                          zero ? "not below" : "above"));
  }
  return static_cast<Ticks>(ticks);
}

class BlocksReader {
 public:
  explicit BlocksReader(const Node& root) : root_(root) {}

  BlocksDocument read() {
    require_schema(root_, kBlocksSchema, "a file of blocks");
    const std::string name = root_.at("name").name();
    devices_ = root_.at("devices").count(1, kMostDevices);
    read_blocks();
    read_rules();
    std::optional<int> micro_batches;
    if (const auto node = root_.find("micro_batches")) {
      micro_batches = node->count(1, kMostBlockBatches);
    }
    auto starts = read_starts(micro_batches);
    root_.finish();
    const Ticks unit = common_unit(starts);
    for (PlanBlock& block : blocks_) block.time /= unit;
    if (starts) {
      for (auto& of_block : *starts) {
        for (Ticks& start : of_block) start /= unit;
      }
    }
    BlocksDocument document{make_block_plan(name, devices_, std::move(blocks_),
                                            std::move(devices_of_), std::move(rules_)),
                            kFinest / static_cast<double>(unit), micro_batches, std::move(starts)};
    check(document);
    return document;
  }

 private:
  [[nodiscard]] NodeId node_named(const Node& at, const std::string& name) const {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) {
      std::string hint = did_you_mean(name, names_);
      at.fail(fmt::format("there is no block '{}'", name),
              hint.empty() ? fmt::format("one of {}", fmt::join(names_, ", ")) : hint);
    }
    return static_cast<NodeId>(found - names_.begin());
  }

  [[nodiscard]] int device_of(const Node& node, std::string_view text) const {
    const auto device = parse_as<int>(text);
    if (!device || *device < 0 || *device >= devices_) {
      node.fail(fmt::format("'{}' is not a device", text),
                fmt::format("devices are 0 to {}: a number, a range such as 0-3, or a list",
                            devices_ - 1));
    }
    return *device;
  }

  [[nodiscard]] std::vector<int> read_devices(const Node& node) const {
    std::vector<int> devices;
    const auto add = [&](const Node& item) {
      const std::string text = item.text();
      const std::size_t dash = text.find('-', 1);
      const int first = device_of(item, std::string_view(text).substr(0, dash));
      const int last = dash == std::string::npos
                           ? first
                           : device_of(item, std::string_view(text).substr(dash + 1));
      for (int d = first; d <= last; ++d) devices.push_back(d);
    };
    if (node.is_list()) {
      for (const Node& item : node.items()) add(item);
    } else {
      add(node);
    }
    std::ranges::sort(devices);
    if (devices.empty()) node.fail("a block lies on one device at least");
    if (std::ranges::adjacent_find(devices) != devices.end()) node.fail("a device is named twice");
    return devices;
  }

  void read_blocks() {
    const Node map = root_.at("blocks");
    for (const Node::Entry& entry : map.entries()) {
      if (names_.size() >= kMostBlocks) map.fail(fmt::format("more than {} blocks", kMostBlocks));
      if (!parse_instance(entry.key) || parse_instance(entry.key)->name != entry.key) {
        throw InputError(entry.where, fmt::format("'{}' is not a name of a block", entry.key),
                         "a word without spaces and parentheses");
      }
      names_.push_back(entry.key);
    }
    if (names_.empty()) map.fail("there are no blocks");
    for (const Node::Entry& entry : map.entries()) {
      PlanBlock block{entry.key, read_time(entry.value.at("time"), false), 0};
      devices_of_.push_back(read_devices(entry.value.at("devices")));
      if (const auto memory = entry.value.find("memory")) {
        block.memory = static_cast<int>(memory->integer({-kMostMemory, kMostMemory}));
      }
      const auto own = static_cast<NodeId>(blocks_.size());
      blocks_.push_back(std::move(block));
      if (const auto after = entry.value.find("after")) {
        for (const Node& item : after->is_list() ? after->items() : std::vector<Node>{*after}) {
          add_rule(item, {node_named(item, item.text()), own, 0});
        }
      }
    }
    check_memory(map);
  }

  /// Every device gives back what a micro-batch takes.
  void check_memory(const Node& map) const {
    std::vector<std::int64_t> kept(static_cast<std::size_t>(devices_), 0);
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      for (const int d : devices_of_[b]) kept[static_cast<std::size_t>(d)] += blocks_[b].memory;
    }
    for (std::size_t d = 0; d < kept.size(); ++d) {
      if (kept[d] == 0) continue;
      map.fail(
          fmt::format("a micro-batch takes {} on device {} more than it gives back", kept[d], d),
          "memory of the blocks of a device adds up to 0");
    }
  }

  void add_rule(const Node& at, const BeforeRule& rule) {
    if (rules_.size() >= kMostRules) at.fail(fmt::format("more than {} rules", kMostRules));
    rules_.push_back(rule);
    places_.push_back(at.where());
  }

  void read_rules() {
    const auto list = root_.find("before");
    if (!list) return;
    for (const Node& item : list->items()) {
      const auto rule = parse_rule_text(item.text());
      if (!rule) {
        item.fail(fmt::format("'{}' is not a rule", item.text()),
                  "BLOCK before BLOCK, or with micro-batches: BLOCK(m+2) before BLOCK(m)");
      }
      add_rule(item, {node_named(item, rule->first.name), node_named(item, rule->second.name),
                      rule->later()});
    }
  }

  std::optional<BlockStarts> read_starts(std::optional<int>& micro_batches) const {
    const auto map = root_.find("starts");
    if (!map) return std::nullopt;
    BlockStarts starts(names_.size());
    for (const Node::Entry& entry : map->entries()) {
      const NodeId id = node_named(entry.value, entry.key);
      for (const Node& item : entry.value.items()) starts[id].push_back(read_time(item, true));
      if (!micro_batches) micro_batches = static_cast<int>(starts[id].size());
      if (static_cast<int>(starts[id].size()) != *micro_batches || starts[id].empty() ||
          *micro_batches > kMostBlockBatches) {
        entry.value.fail(fmt::format("{} begins {} times, for {} micro-batches", entry.key,
                                     starts[id].size(), *micro_batches));
      }
    }
    for (std::size_t b = 0; b < starts.size(); ++b) {
      if (starts[b].empty()) map->fail(fmt::format("'{}' never begins", names_[b]));
    }
    return starts;
  }

  [[nodiscard]] Ticks common_unit(const std::optional<BlockStarts>& starts) const {
    Ticks unit = 0;
    for (const PlanBlock& block : blocks_) unit = std::gcd(unit, block.time);
    if (!starts) return unit;
    for (const auto& of_block : *starts) {
      for (const Ticks start : of_block) unit = std::gcd(unit, start);
    }
    return unit;
  }

  [[nodiscard]] std::string text_of(const BlockPlan& plan, std::size_t rule) const {
    const BeforeRule& r = plan.rules[rule];
    return fmt::format("{} (line {})",
                       rule_text(plan.blocks[r.first].name, plan.blocks[r.second].name, r.later),
                       places_[rule].line);
  }

  void check(const BlocksDocument& document) const {
    const std::vector<std::size_t> circle = contradiction(document.plan);
    if (!circle.empty()) {
      std::vector<std::string> texts;
      for (const std::size_t rule : circle) texts.push_back(text_of(document.plan, rule));
      throw InputError(places_[circle.front()],
                       fmt::format("rules lead in a circle: {}", fmt::join(texts, ", ")),
                       "take one of them out; micro-batches pass every block in sequence");
    }
    if (!document.starts) return;
    const std::vector<std::string> faults = start_faults(document.plan, *document.starts);
    if (!faults.empty()) root_.at("starts").fail(fmt::format("{}", fmt::join(faults, "; ")));
  }

  const Node& root_;
  int devices_ = 1;
  std::vector<std::string> names_;
  std::vector<PlanBlock> blocks_;
  std::vector<std::vector<int>> devices_of_;
  std::vector<BeforeRule> rules_;
  std::vector<SourceLocation> places_;  ///< of the rules
};

BlocksDocument read_document(const Document& document) {
  return document.collect([](const Node& root) { return BlocksReader(root).read(); });
}

constexpr int kMostShift = 1'000;

}  // namespace

BlocksDocument read_blocks(const std::filesystem::path& path) {
  return read_document(Document::read(path));
}

BlocksDocument parse_blocks(std::string_view text, const std::string& file_name) {
  return read_document(Document::parse(text, file_name, Syntax::Yaml));
}

std::optional<RuleInstance> parse_instance(std::string_view text) {
  const auto trim = [](std::string_view part) {
    const std::size_t first = part.find_first_not_of(' ');
    if (first == std::string_view::npos) return std::string_view();
    return part.substr(first, part.find_last_not_of(' ') - first + 1);
  };
  text = trim(text);
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) {
    if (text.empty() || text.find(' ') != std::string_view::npos) return std::nullopt;
    return RuleInstance{std::string(text), 0};
  }
  RuleInstance instance{std::string(trim(text.substr(0, open))), 0};
  std::string_view inside = text.substr(open + 1);
  if (instance.name.empty() || !inside.ends_with(')')) return std::nullopt;
  inside = trim(inside.substr(0, inside.size() - 1));
  if (!inside.starts_with('m')) return std::nullopt;
  inside = trim(inside.substr(1));
  if (inside.empty()) return instance;
  const bool minus = inside.front() == '-';
  if (!minus && inside.front() != '+') return std::nullopt;
  const auto number = parse_as<int>(trim(inside.substr(1)));
  if (!number || *number < 0 || *number > kMostShift) return std::nullopt;
  instance.shift = minus ? -*number : *number;
  return instance;
}

std::optional<RuleText> parse_rule_text(std::string_view text) {
  constexpr std::string_view kWord = " before ";
  const std::size_t word = text.find(kWord);
  if (word == std::string_view::npos) return std::nullopt;
  auto first = parse_instance(text.substr(0, word));
  auto second = parse_instance(text.substr(word + kWord.size()));
  if (!first || !second) return std::nullopt;
  return RuleText{*std::move(first), *std::move(second)};
}

std::optional<RuleEntry> parse_rule(std::string_view text) {
  const auto rule = parse_rule_text(text);
  if (!rule) return std::nullopt;
  return RuleEntry{rule->first.name, rule->second.name, rule->later(), {}};
}

std::string to_text(const RuleEntry& rule) {
  return rule_text(rule.first, rule.second, rule.later);
}

std::optional<WindowDocument> read_window(const Node& root) {
  constexpr std::size_t kMostRules = 5'000;
  const auto order = root.find("order");
  if (!order) return std::nullopt;
  const auto window = order->find("window");
  const auto before = order->find("before");
  const bool found = window && window->boolean();
  if (!found && !before) return std::nullopt;
  if (const auto schedule = order->find("schedule")) {
    schedule->fail("a schedule beside an order that is found",
                   "keep schedule, or window and before");
  }
  WindowDocument document;
  document.place = {before ? before->where() : window->where()};
  if (!before) return document;
  for (const Node& item : before->items()) {
    auto rule = parse_rule(item.text());
    if (!rule || document.rules.size() >= kMostRules) {
      item.fail(rule ? fmt::format("more than {} rules", kMostRules)
                     : fmt::format("'{}' is not a rule", item.text()),
                "passes by name: f0 before b1, or with micro-batches: b0 before f0(m+2)");
    }
    rule->place = {item.where()};
    document.rules.push_back(*std::move(rule));
  }
  return document;
}

}  // namespace plansearch::io
