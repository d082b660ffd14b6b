// SPDX-License-Identifier: Apache-2.0
#include "exporters/reading.hpp"
#include "base/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/raw_value.hpp"

namespace plansearch::exporters {
namespace {

std::string shown(const Value& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, Value::error_handler_t::replace);
}

std::optional<double> parsed(const Value& value) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const auto number = parse_as<double>(value.get<std::string>());
  return number && std::isfinite(*number) ? number : std::nullopt;
}

}  // namespace

const Value& Reading::value(std::string_view key) const {
  static const Value kNothing;
  const auto found = said.find(key);
  return found == said.end() ? kNothing : found->second;
}

const Value& Reading::fact(std::string_view name) const {
  static const Value kNothing;
  const auto found = facts.find(name);
  return found == facts.end() ? kNothing : found->second;
}

bool Reading::on(std::string_view name) const {
  return is_on(fact(name));
}

std::string Reading::word(std::string_view name, std::string_view otherwise) const {
  return knows(name) ? text_in(fact(name)) : std::string(otherwise);
}

std::string Reading::key_word(std::string_view key, std::string_view otherwise) const {
  return says(key) ? text_in(value(key)) : std::string(otherwise);
}

std::int64_t Reading::number(std::string_view name, std::int64_t otherwise, std::int64_t low,
                             std::int64_t high) const {
  return knows(name) ? whole_number(fact(name), low, high) : otherwise;
}

std::int64_t Reading::key_number(std::string_view key, std::int64_t otherwise, std::int64_t low,
                                 std::int64_t high) const {
  return says(key) ? whole_number(value(key), low, high) : otherwise;
}

int Reading::count(std::string_view name, int otherwise) const {
  return knows(name) ? count_in(fact(name)) : otherwise;
}

MoeDescription& Reading::experts() {
  if (!model.moe) model.moe.emplace();
  return *model.moe;
}

LatentAttention& Reading::latent() {
  if (!model.attention.latent) model.attention.latent.emplace();
  return *model.attention.latent;
}

std::int64_t whole_number(const Value& value, std::int64_t low, std::int64_t high) {
  const auto number = parsed(value);
  // Within 2^53 a double holds every whole number.
  if (!number || *number != std::floor(*number))
    throw WrongValue(fmt::format("'{}' is not a whole number", shown(value)));
  if (*number < static_cast<double>(low) || *number > static_cast<double>(high))
    throw WrongValue(fmt::format("'{}' is not from {} to {}", shown(value), low, high));
  return static_cast<std::int64_t>(*number);
}

int count_in(const Value& value, int low) {
  return static_cast<int>(whole_number(value, low, 10'000'000));
}

double real_number(const Value& value) {
  const auto number = parsed(value);
  if (!number) throw WrongValue(fmt::format("'{}' is not a number", shown(value)));
  return *number;
}

bool is_on(const Value& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0.0;
  if (value.is_null()) return false;
  if (!value.is_string()) return true;
  const std::string word = canonical_name(value.get<std::string>());
  return !(word == "false" || word == "0" || word == "no" || word == "off" || word == "none" ||
           word == "null" || word.empty());
}

std::string text_in(const Value& value) {
  if (value.is_array() || value.is_object())
    throw WrongValue(fmt::format("'{}' is not one word", shown(value)));
  return shown(value);
}

std::vector<std::string> texts_in(const Value& value) {
  if (!value.is_array()) return {text_in(value)};
  return transformed(value, [&](const Value& one) { return text_in(one); });
}

Value plain_value(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return Value(true);
  if (text == "false" || text == "False" || text == "FALSE") return Value(false);
  if (text.empty() || text == "null" || text == "~") return {};
  if (const auto whole = parse_as<std::int64_t>(text)) return Value(*whole);
  if (const auto real = parse_as<double>(text); real && std::isfinite(*real)) return Value(*real);
  return Value(std::string(text));
}

Value value_of(const io::RawValue& raw) {
  switch (raw.kind) {
    case io::RawKind::Null:
      return {};
    case io::RawKind::Plain:
      return plain_value(raw.text);
    case io::RawKind::Quoted:
      return Value(raw.text);
    case io::RawKind::List: {
      Value list = Value::array();
      for (const io::RawValue& item : raw.items) list.push_back(value_of(item));
      return list;
    }
    case io::RawKind::Map: {
      Value map = Value::object();
      for (const io::RawEntry& entry : raw.entries) map[entry.key] = value_of(entry.value);
      return map;
    }
  }
  return {};
}

bool is_left_open(const Value& value) {
  if (value.is_null()) return true;
  if (!value.is_string()) return false;
  const std::string word = canonical_name(value.get<std::string>());
  return word == "auto" || word == "none" || word == "null" || word.empty();
}

void settle_ranks(Reading& r) {
  PlanDegrees others = r.degrees;
  others.data = 1;
  const int rest = others.devices();
  if (r.degrees.data == 0) {  // what is left
    if (r.gpus() == 0) throw Unsettled("nothing says how many GPUs there are", "--gpus N");
    if (r.gpus() % rest != 0) {
      throw Unsettled(
          fmt::format("one replica takes {} GPUs, which do not divide {}", rest, r.gpus()),
          "--gpus N, or another file");
    }
    r.degrees.data = r.gpus() / rest;
  }
  if (r.gpus() == 0) r.asked.gpus = r.degrees.devices();
  if (r.degrees.devices() != r.gpus()) {
    throw Unsettled(fmt::format("the degrees take {} GPUs, not {}", r.degrees.devices(), r.gpus()),
                    "--gpus N, or another file");
  }
}

void settle_batch(Reading& r) {
  PlanDegrees& d = r.degrees;
  const std::int64_t one = std::int64_t{1} * d.data * d.tensor_depth * d.micro_batch;
  if (d.micro_batches > 0) {
    if (!r.asked.batch) r.asked.batch = one * d.micro_batches;
  } else if (r.asked.batch && !r.open.contains(Degree::MicroBatch)) {
    d.micro_batches = static_cast<int>(std::min<std::int64_t>(*r.asked.batch / one, 1 << 30));
  } else {
    d.micro_batches = 1;
    return;
  }
  if (!r.open.contains(Degree::MicroBatch) && *r.asked.batch != one * d.micro_batches) {
    throw Unsettled(
        fmt::format("a batch of {} is not a whole number of micro-batches of {} on {} data ranks",
                    *r.asked.batch, d.micro_batch, d.data),
        "--batch N, --gpus N, or another file");
  }
}

void settle_overlap(Reading& r) {
  std::vector<std::string> words;
  for (std::size_t k = 0; k < kOverlapCount; ++k) {
    const std::string name = name_of(setting_of(static_cast<Overlap>(k)));  // "overlap grad"
    if (r.hides[k])
      words.push_back(fmt::format("{}={}", name.substr(name.find(' ') + 1), *r.hides[k] ? 1 : 0));
  }
  if (!words.empty()) r.asked.overlap = fmt::format("{}", fmt::join(words, ","));
}

}  // namespace plansearch::exporters
