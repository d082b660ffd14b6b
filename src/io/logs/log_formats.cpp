// SPDX-License-Identifier: Apache-2.0
#include "io/logs/log_formats.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string_view>

#include "base/units.hpp"
#include "io/document/document.hpp"
#include "io/document/fields.hpp"
#include "io/hardware/profile_parts.hpp"

namespace plansearch::io {
namespace {

/// By enumerators.
constexpr std::array<std::string_view, kLoggedCount - 1> kNames{
    "step",          "total",          "step_time",
    "steps_per_s",   "tokens_per_s",   "tokens_per_s_gpu",
    "samples_per_s", "mean_step_time", "mean_steps_per_s",
    "elapsed",       "flop_rate",      "allocated",
    "reserved",      "batch",          "seq_len",
    "gpus",          "skipped",        "skipped_so_far",
    "nans",          "prompts",        "prompts_of_update",
    "retries"};

/// One of the unit in base units; nothing for another word.
std::optional<double> factor_of(const std::string& unit) {
  if (unit.empty() || unit == "clock") return 1.0;
  const std::string one = "1 " + unit;
  if (const auto time = parse_quantity<Seconds>(one)) return time->value();
  if (const auto size = parse_quantity<Bytes>(one)) return size->value();
  if (const auto rate = parse_quantity<FlopRate>(one)) return rate->value();
  return std::nullopt;
}

LinePattern read_pattern(const Node& node) {
  const auto pattern = LinePattern::read(node.text());
  if (!pattern) node.fail("a pattern has words in front of its number, and the number in braces");
  return *pattern;
}

LogLine read_line(const Node& node) {
  LogLine line;
  line.mark = node.at("mark").text();
  Fields(node).take("open", line.open, &Node::boolean);
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const auto what = static_cast<Logged>(i);
    const auto spellings = node.find(kNames[i]);
    if (!spellings) continue;
    for (const Node& spelling : spellings->items()) {
      LinePattern pattern = read_pattern(spelling);
      const auto factor = factor_of(pattern.unit());
      if (!factor) spelling.fail(fmt::format("'{}' is not a unit", pattern.unit()));
      line.paced = line.paced || is_pace(what);
      line.fields.push_back({what, std::move(pattern), *factor});
    }
  }
  return line;
}

}  // namespace

LogFormats read_log_formats(const std::filesystem::path& path) {
  const Document document = Document::read(path);
  const Node root = document.root();
  require_schema(root, "plansearch/logs/v1");
  LogFormats table;
  for (const Node& node : root.at("ranks").items()) table.ranks.push_back(read_pattern(node));
  for (const Node& node : root.at("out_of_memory").items())
    table.out_of_memory.push_back(node.text());
  for (const Node& node : root.at("logs").items()) {
    LogFormat format{node.at("name").text(), {}};
    for (const std::string_view key : {"programs", "source"}) {
      static_cast<void>(node.at(key).text());
    }
    for (const Node& line : node.at("lines").items()) format.lines.push_back(read_line(line));
    table.formats.push_back(std::move(format));
  }
  root.finish();
  return table;
}

}  // namespace plansearch::io
