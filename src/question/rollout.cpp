// SPDX-License-Identifier: Apache-2.0
#include "question/rollout.hpp"

#include <fmt/format.h>

#include "base/names.hpp"
#include "base/units.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr double kWeightBytes = 2.0;  // engines serve in 16 bits

[[noreturn]] void refuse(const std::string& what) {
  throw InputError(
      {}, "--rollout: " + what,
      "write util=SHARE or bytes, then what differs: util=0.6,tp=2,buffer=1 GiB,asleep");
}

Bytes bytes_in(std::string_view text) {
  const auto bytes = parse_quantity<Bytes>(text);
  if (!bytes || *bytes < Bytes(0)) refuse(fmt::format("'{}' is not a memory size", text));
  return *bytes;
}

int ranks_in(std::string_view text) {
  const auto ranks = parse_as<int>(text);
  if (!ranks || *ranks < 1) refuse(fmt::format("'{}' is not a number of ranks", text));
  return *ranks;
}

}  // namespace

RolloutMemory read_rollout(std::string_view text, Bytes device, std::int64_t parameters) {
  std::optional<Bytes> share;
  RolloutMemory memory;
  int ranks = 1;
  bool asleep = false;
  for (const std::string& part : words_of(text, ",")) {
    const std::string_view word = trimmed(part);
    const std::size_t equals = word.find('=');
    const std::string_view key = word.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1);
    if (key == "util" || parse_number(word)) {
      const auto util = parse_number(key == "util" ? value : word);
      if (!util || *util <= 0.0 || *util >= 1.0) {
        refuse(fmt::format("'{}' is not a share of the memory between 0 and 1",
                           key == "util" ? value : word));
      }
      share = device * *util;
    } else if (key == "tp") {
      ranks = ranks_in(value);
    } else if (key == "buffer") {
      memory.exchange = bytes_in(value);
    } else if (word == "asleep") {
      asleep = true;
    } else {
      share = bytes_in(word);
    }
  }
  if (!share) refuse("nothing says how much memory the engine takes");
  memory.weights = Bytes(kWeightBytes * static_cast<double>(parameters) / ranks);
  if (memory.weights > *share) {
    refuse(fmt::format("its weights are {} a device over {} rank{}, its share is {}",
                       to_text(memory.weights), ranks, ranks > 1 ? "s" : "", to_text(*share)));
  }
  memory.cache = asleep ? Bytes(0) : *share - memory.weights;
  return memory;
}

std::string to_text(const RolloutMemory& memory) {
  return fmt::format("weights {}, cache {}, exchange {}", to_text(memory.weights),
                     to_text(memory.cache), to_text(memory.exchange));
}

Bytes kept_free(const ProblemRequest& request, Bytes device, std::int64_t parameters,
                std::vector<SettingReport>& settings) {
  Bytes kept;
  if (request.mem_reserve) {
    const auto reserve = parse_quantity<Bytes>(*request.mem_reserve);
    if (!reserve || *reserve < Bytes(0)) {
      throw InputError(
          {}, fmt::format("--mem-reserve: '{}' is not a memory size", *request.mem_reserve),
          "write it with its unit, such as \"2 GiB\"");
    }
    kept = *reserve;
    settings.push_back({"mem_reserve", *request.mem_reserve, request.origin("mem_reserve")});
  }
  if (request.rollout) {
    const RolloutMemory engine = read_rollout(*request.rollout, device, parameters);
    kept += engine.held();
    settings.push_back({"rollout", *request.rollout, request.origin("rollout")});
    settings.push_back({"rollout_memory", to_text(engine), request.origin("rollout")});
  }
  if (kept >= device) {
    throw InputError({}, fmt::format("{}: {} leaves nothing of {}",
                                     request.rollout ? "--rollout" : "--mem-reserve", to_text(kept),
                                     to_text(device)));
  }
  return kept;
}

}  // namespace plansearch
