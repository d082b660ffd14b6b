// SPDX-License-Identifier: Apache-2.0
#include "measure/sample_file.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/ranges.hpp"
#include "base/units.hpp"
#include "io/document/fields.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kSamplesSchema = "plansearch/samples/v1";
constexpr std::array<std::string_view, 10> kSampleWords{"dtype",      "layout", "pass", "direction",
                                                        "collective", "kernel", "mask", "groups",
                                                        "timed",      "beside"};
constexpr std::array<std::string_view, 12> kCounts{"batch",   "m",     "n",        "k",
                                                   "bytes",   "ranks", "nodes",    "stride",
                                                   "seq_len", "heads", "kv_heads", "head_dim"};
constexpr IntegerRange kCountRange{1, 1'000'000'000'000'000};

double not_negative(const Node& node) {
  const double number = node.number();
  if (number < 0.0) node.fail("must not be negative");
  return number;
}

int count_in(const Node& node) {
  return node.count();
}

SampledMachine read_machine(const Node& node) {
  if (!node.is_map() || !node.find("schema")) {
    node.fail("the first line does not describe a machine",
              "plansearch calibrate writes such files");
  }
  require_schema(node, kSamplesSchema);
  SampledMachine machine;
  const Fields fields(node);
  machine.name = node.at("name").text();
  fields.take("backend", machine.backend, &Node::text);
  fields.take("multiprocessors", machine.multiprocessors, count_in);
  fields.take("accelerators", machine.accelerators, count_in);
  fields.take("memory_bytes", machine.memory_bytes, not_negative);
  fields.take("cache_bytes", machine.cache_bytes, not_negative);
  fields.with("facts", [&](const Node& facts) {
    for (const Node::Entry& fact : facts.entries()) machine.facts[fact.key] = fact.value.text();
  });
  fields.with("date", &Node::text);
  node.finish();
  return machine;
}

Sample read_sample(const Node& node) {
  Sample sample;
  sample.line = node.where().line;
  sample.probe = node.at("probe").text();
  const Fields fields(node);
  for (const std::string_view word : kSampleWords) {
    fields.with(word, [&](const Node& cell) { sample.cells[std::string(word)] = cell.text(); });
  }
  for (const std::string_view count : kCounts) {
    fields.with(count, [&](const Node& cell) {
      sample.cells[std::string(count)] = fmt::format("{}", cell.integer(kCountRange));
    });
  }
  fields.take("time_us", sample.time_us, &Node::positive_number);
  fields.take("spread", sample.spread, not_negative);
  fields.with("blocks_us", [&](const Node& blocks) {
    sample.blocks_us = transformed(blocks.items(), &Node::positive_number);
  });
  fields.take("flags", sample.flags, &Node::texts);
  fields.with("state", [&](const Node& state) {
    for (const Node::Entry& one : state.entries())
      sample.state.values[one.key] = one.value.number();
  });
  fields.take("failed", sample.failed, &Node::text);
  fields.take("skipped", sample.skipped, &Node::text);
  node.finish();
  if (!sample.time_us && sample.failed.empty() && sample.skipped.empty()) {
    node.fail("the line has neither time_us nor a reason (failed, skipped)",
              "times are in microseconds: time_us");
  }
  return sample;
}

}  // namespace

std::string word_in(const SampleCells& cells, std::string_view name) {
  const auto cell = cells.find(name);
  return cell == cells.end() ? std::string() : cell->second;
}

double number_in(const SampleCells& cells, std::string_view name) {
  return parse_number(word_in(cells, name)).value_or(1.0);
}

bool is_sample_file(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  return first.starts_with('{') && first.find("plansearch/samples/") != std::string_view::npos;
}

/// A run that was killed while it wrote the first line.
static bool begins_sample_file(std::string_view text) {
  return is_sample_file(text) ||
         std::string_view("{\"schema\":\"plansearch/samples/").starts_with(text);
}

SampleFile parse_samples(std::string_view text, const std::string& file_name) {
  SampleFile found;
  found.file = file_name;
  found.whole_bytes = text.rfind('\n') + 1;  // 0 without a whole line
  if (found.whole_bytes == 0) {
    if (begins_sample_file(text)) return found;
    throw InputError({file_name, 1, 1}, "this is not a file of samples",
                     "name another file with --out");
  }
  // One list, of which every line is an item.
  std::string list = "[";
  for (const char c : text.substr(0, found.whole_bytes - 1)) {
    if (c == '\n') list += ',';
    list += c;
  }
  constexpr std::size_t kMostValues = 1'000'000;
  const Document document = Document::parse(list + "]", file_name, Syntax::Json,
                                            {.size = list.size() + 1, .values = kMostValues});
  const std::vector<Node> lines = document.root().items();
  found.machine = read_machine(lines.front());
  for (std::size_t i = 1; i < lines.size(); ++i) found.samples.push_back(read_sample(lines[i]));
  return found;
}

std::string machine_line(const SampledMachine& machine, std::string_view date) {
  const Json json{{"schema", kSamplesSchema},
                  {"backend", machine.backend},
                  {"name", machine.name},
                  {"multiprocessors", machine.multiprocessors},
                  {"memory_bytes", machine.memory_bytes},
                  {"cache_bytes", machine.cache_bytes},
                  {"accelerators", machine.accelerators},
                  {"facts", machine.facts},
                  {"date", date}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string sample_line(const Sample& sample) {
  const auto rounded = [](double value) {
    return parse_number(fmt::format("{:.6g}", value)).value_or(0.0);
  };
  Json json{{"probe", sample.probe}};
  for (const auto& [key, value] : sample.cells) {
    if (contains(kSampleWords, key)) {
      json[key] = value;
    } else {
      json[key] = static_cast<std::int64_t>(parse_number(value).value_or(0.0));
    }
  }
  if (sample.time_us) {
    json["time_us"] = rounded(*sample.time_us);
    json["spread"] = rounded(sample.spread);
    Json blocks = Json::array();
    for (const double block : sample.blocks_us) blocks.push_back(rounded(block));
    json["blocks_us"] = std::move(blocks);
    if (!sample.flags.empty()) json["flags"] = sample.flags;
    if (!sample.state.values.empty()) json["state"] = sample.state.values;
  }
  if (!sample.failed.empty()) json["failed"] = sample.failed;
  if (!sample.skipped.empty()) json["skipped"] = sample.skipped;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string sample_key(std::string_view probe, const SampleCells& cells) {
  std::string key(probe);
  for (const auto& [name, value] : cells) key += fmt::format(" {}={}", name, value);
  return key;
}

}  // namespace plansearch::io
