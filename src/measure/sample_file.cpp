// SPDX-License-Identifier: Apache-2.0
#include "measure/sample_file.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/ranges.hpp"
#include "base/units.hpp"
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
constexpr double kLongest = 1e12;  // microseconds

/// One line of a file, for messages.
class Line {
 public:
  Line(std::string file, int number) : file_(std::move(file)), number_(number) {}

  [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const {
    throw InputError({file_, number_, 1}, message, hint);
  }

  [[nodiscard]] Json parse(std::string_view text) const {
    Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded() || !json.is_object()) {
      fail("the line is not a JSON object", "remove it, or measure again into a new file");
    }
    return json;
  }

  [[nodiscard]] std::string text(const std::string& key, const Json& value) const {
    if (!value.is_string()) fail(fmt::format("{} is not a text", key));
    return value.get<std::string>();
  }

  [[nodiscard]] double number(const std::string& key, const Json& value, double low,
                              double high) const {
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (!(number >= low && number <= high)) {
      fail(fmt::format("{} is {}, not a number from {:g} to {:g}", key, value.dump(), low, high));
    }
    return number;
  }

  [[nodiscard]] double time(const std::string& key, const Json& value) const {
    const double time = number(key, value, 0.0, kLongest);
    if (time <= 0.0) fail(fmt::format("{} must be above zero", key));
    return time;
  }

  [[nodiscard]] std::vector<std::string> texts(const std::string& key, const Json& value) const {
    if (!value.is_array()) fail(fmt::format("{} is not a list", key));
    return transformed(value, [&](const Json& item) { return text(key, item); });
  }

 private:
  std::string file_;
  int number_;
};

SampledMachine read_machine(const Line& line, const Json& json) {
  SampledMachine machine;
  constexpr double kMany = 1e15;
  for (const auto& [key, value] : json.items()) {
    if (key == "schema") {
      if (value != kSamplesSchema) line.fail(fmt::format("the schema is not {}", kSamplesSchema));
    } else if (key == "backend") {
      machine.backend = line.text(key, value);
    } else if (key == "name") {
      machine.name = line.text(key, value);
    } else if (key == "multiprocessors") {
      machine.multiprocessors = static_cast<int>(line.number(key, value, 1, 1e6));
    } else if (key == "accelerators") {
      machine.accelerators = static_cast<int>(line.number(key, value, 1, 1e6));
    } else if (key == "memory_bytes") {
      machine.memory_bytes = line.number(key, value, 0.0, kMany);
    } else if (key == "cache_bytes") {
      machine.cache_bytes = line.number(key, value, 0.0, kMany);
    } else if (key == "facts") {
      if (!value.is_object()) line.fail("facts is not an object");
      for (const auto& [name, fact] : value.items()) machine.facts[name] = line.text(name, fact);
    } else if (key != "date") {
      line.fail(fmt::format("unknown key '{}'", key));
    }
  }
  if (machine.name.empty()) line.fail("the first line does not name the machine");
  return machine;
}

bool read_result(const Line& line, const std::string& key, const Json& value, Sample& sample) {
  if (key == "time_us") {
    sample.time_us = line.time(key, value);
  } else if (key == "spread") {
    sample.spread = line.number(key, value, 0.0, kLongest);
  } else if (key == "blocks_us") {
    if (!value.is_array()) line.fail("blocks_us is not a list");
    for (const Json& block : value) sample.blocks_us.push_back(line.time(key, block));
  } else if (key == "flags") {
    sample.flags = line.texts(key, value);
  } else if (key == "state") {
    if (!value.is_object()) line.fail("state is not an object");
    for (const auto& [name, number] : value.items()) {
      sample.state.values[name] = line.number(name, number, -kLongest, kLongest);
    }
  } else if (key == "failed") {
    sample.failed = line.text(key, value);
  } else if (key == "skipped") {
    sample.skipped = line.text(key, value);
  } else {
    return false;
  }
  return true;
}

Sample read_sample(const Line& line, const Json& json) {
  constexpr double kMany = 1e15;
  Sample sample;
  for (const auto& [key, value] : json.items()) {
    if (read_result(line, key, value, sample)) continue;
    if (key == "probe") {
      sample.probe = line.text(key, value);
    } else if (contains(kSampleWords, key)) {
      sample.cells[key] = line.text(key, value);
    } else if (contains(kCounts, key)) {
      const double count = line.number(key, value, 1.0, kMany);
      if (count != std::floor(count)) line.fail(fmt::format("{} is not a whole number", key));
      sample.cells[key] = fmt::format("{:.0f}", count);
    } else {
      line.fail(fmt::format("unknown key '{}'", key),
                key.starts_with("time") ? "times are in microseconds: time_us" : "");
    }
  }
  if (sample.probe.empty()) line.fail("the line names no probe");
  if (!sample.time_us && sample.failed.empty() && sample.skipped.empty()) {
    line.fail("the line has neither time_us nor a reason (failed, skipped)",
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
  int number = 0;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos;
       end = text.find('\n', begin)) {
    const std::string_view content = text.substr(begin, end - begin);
    begin = end + 1;
    const Line line(file_name, ++number);
    const Json json = line.parse(content);
    if (number == 1) {
      if (!json.contains("schema")) {
        line.fail("the first line does not describe a machine",
                  "plansearch calibrate writes such files");
      }
      found.machine = read_machine(line, json);
      continue;
    }
    found.samples.push_back(read_sample(line, json));
    found.samples.back().line = number;
  }
  found.whole_bytes = begin;
  if (number == 0 && !begins_sample_file(text)) {
    Line(file_name, 1).fail("this is not a file of samples", "name another file with --out");
  }
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
