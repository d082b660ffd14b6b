// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "base/units.hpp"
#include "plansearch/error.hpp"
#include "question/framework_flags.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kFlag = "--routing";
constexpr std::string_view kCapacity = "capacity factor";
constexpr std::string_view kRoutingHint =
    "write a kind such as balanced, or the tokens of the fullest rank over the mean, such as 1.3; "
    "behind it \", capacity factor 2\" where tokens beyond it are dropped";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw InputError({}, fmt::format("{} {}: {}", kFlag, text, why), std::string(kRoutingHint));
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
    const bool alias =
        std::any_of(kind.aliases.begin(), kind.aliases.end(),
                    [&](const std::string& other) { return canonical_name(other) == name; });
    if (alias || canonical_name(kind.name) == name) return kind;
  }
  const std::string guess = did_you_mean(word, known);
  refuse(text, fmt::format("'{}' is none of {}, nor a number{}{}", word, fmt::join(known, ", "),
                           guess.empty() ? "" : "; ", guess));
}

}  // namespace

void apply_routing(Framework& framework, const ModelDescription& model, Network& network,
                   const std::string& text) {
  if (!network.routing) {
    throw InputError({}, fmt::format("{} {}: {} has no experts", kFlag, text, model.name),
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
      throw InputError({}, fmt::format("{} {}: {} drops no tokens", kFlag, text, framework.name),
                       frameworks_that([](const Framework& other) { return other.drops_tokens; }));
    }
  }
  if (const auto load = parse_number(std::string(word))) {
    if (!(*load >= 1.0)) refuse(text, "the fullest rank has at least the mean: 1 or more");
    framework.routing = RoutingKind{fmt::format("{}", *load), {}, 0.0, {}};
    routing.spread.reset();
    routing.imbalance = std::min(*load, routing.most.value_or(*load));
    return;
  }
  framework.routing = find_kind(framework, word, text);
  routing.spread = framework.routing->spread;
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

}  // namespace plansearch
