// SPDX-License-Identifier: Apache-2.0
#include "question/gpu_count.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <limits>
#include <system_error>
#include <utility>

#include "base/checked.hpp"
#include "base/names.hpp"
#include "base/units.hpp"

namespace plansearch {

namespace {

/// Far beyond any machine, far below where products of degrees overflow.
constexpr std::int64_t kMostAccelerators = std::int64_t{1} << 22;

constexpr std::string_view kRange = "..";
constexpr std::size_t kMost = 64;

/// A number that an int holds; the commands judge it themselves, with the question at hand.
std::variant<std::int64_t, std::string> read_number(std::string_view text) {
  constexpr double kLargest = std::numeric_limits<int>::max();
  const auto value = parse_count(text);
  const auto number = value ? static_cast<double>(*value) : parse_number(text).value_or(0.0);
  if (std::abs(number) > kLargest) return fmt::format("{} is far too large", text);
  if (!value) return fmt::format("'{}' is not a whole number", text);
  return *value;
}

std::vector<std::int64_t> powers_of_two(std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> powers;
  for (std::int64_t power = 1; power <= high; power *= 2) {
    if (power >= low) powers.push_back(power);
  }
  return powers;
}

enum class CountedIn { Gpus, Nodes };

struct SizedMachine {
  std::string name;
  int gpus = 0;  ///< 0: the name has no size
};

/// "8xH100", "H100x8", "h100:8"; a file may have a colon in its name, and "rtx4090" is a name.
SizedMachine sized_machine(const std::string& text) {
  constexpr std::int64_t kMostInAName = 100'000'000;
  const auto number = [](const std::string& digits) {
    const auto count = parse_count(digits).value_or(0);
    return count > 0 && count <= kMostInAName ? static_cast<int>(count) : 0;
  };
  std::error_code error;
  const std::size_t last = text.find_last_of("xX:");
  if (last == std::string::npos || std::filesystem::exists(text, error)) return {text};
  const std::size_t first = text.find_first_of("xX");
  const int before = first < text.size() ? number(text.substr(0, first)) : 0;
  if (before > 0 && first + 1 < text.size()) return {text.substr(first + 1), before};
  const bool names = text[last] == ':' || text.find_first_of("0123456789") < last;
  const int behind = names && last > 0 ? number(text.substr(last + 1)) : 0;
  return behind > 0 ? SizedMachine{text.substr(0, last), behind} : SizedMachine{text};
}

int checked_count(std::int64_t count, CountedIn unit, const Cluster& cluster) {
  const bool by_node = unit == CountedIn::Nodes;
  const std::int64_t each = by_node ? cluster.accelerators_per_node : 1;
  // A count that cannot be multiplied is refused as it is.
  const std::int64_t gpus = product_within(std::numeric_limits<int>::max(),
                                           std::initializer_list<std::int64_t>{count, each})
                                .value_or(count);
  if (const auto problem = bad_gpu_count(cluster, gpus)) {
    throw InputError({}, fmt::format("--{} {}: {}", by_node ? "nodes" : "gpus", count, *problem),
                     gpu_count_hint(cluster));
  }
  return static_cast<int>(gpus);
}

}  // namespace

std::optional<std::string> bad_gpu_count(const Cluster& cluster, std::int64_t gpus) {
  if (gpus <= 0) return "must be above zero";
  if (gpus > kMostAccelerators) return fmt::format("must be at most {}", kMostAccelerators);
  const int per_node = cluster.accelerators_per_node;
  if (gpus > per_node && gpus % per_node != 0) {
    return fmt::format("not a whole number of nodes of {}", per_node);
  }
  return std::nullopt;
}

std::string gpu_count_hint(const Cluster& cluster) {
  return fmt::format("{} has {} nodes of {}: use up to {} inside a node, or whole nodes",
                     cluster.name, cluster.nodes(), cluster.accelerators_per_node,
                     cluster.accelerators_per_node);
}

void check_devices(const ResolvedQuestion& asked, int devices, const SourceLocation& where) {
  const Cluster& cluster = *asked.problem.cluster;
  if (const auto problem = bad_gpu_count(cluster, devices)) {
    throw InputError(where, fmt::format("the plan takes {} GPUs: {}", devices, *problem),
                     gpu_count_hint(cluster));
  }
  if (asked.gpus.value_or(devices) == devices) return;
  throw InputError(where, fmt::format("the stages take {} GPUs, not {}", devices, *asked.gpus),
                   "leave gpus out, or change the stages");
}

std::string beyond_machine(const Cluster& cluster, int gpus) {
  if (gpus <= cluster.accelerators()) return {};
  return fmt::format("{} GPUs are more than the {} of {}: its links are taken to grow with them",
                     gpus, cluster.accelerators(), cluster.name);
}

std::optional<int> asked_gpus(const ProblemRequest& request, const Cluster& cluster) {
  const bool by_gpu = request.gpus || !request.gpu_list.empty();
  const bool by_node = request.nodes || !request.node_list.empty();
  if (by_gpu && by_node) {
    throw InputError({}, "--gpus and --nodes both say how many", "give one of them");
  }
  if (request.nodes) return checked_count(*request.nodes, CountedIn::Nodes, cluster);
  if (request.gpus) return checked_count(*request.gpus, CountedIn::Gpus, cluster);
  return std::nullopt;
}

ProblemRequest with_own_size(ProblemRequest request) {
  const SizedMachine machine = sized_machine(request.hardware);
  if (machine.gpus == 0) return request;
  const bool sized = request.nodes || !request.gpu_list.empty() || !request.node_list.empty();
  if (sized || request.gpus.value_or(machine.gpus) != machine.gpus) {
    throw InputError({},
                     fmt::format("{} beside --hw {}: every machine has a size of its own",
                                 request.nodes || !request.node_list.empty() ? "--nodes" : "--gpus",
                                 request.hardware),
                     "leave one of the two out");
  }
  request.hardware = machine.name;
  request.gpus = machine.gpus;
  return request;
}

std::vector<int> asked_sizes(const ProblemRequest& request, const Cluster& cluster) {
  std::vector<int> sizes;
  for (const int nodes : request.node_list) {
    sizes.push_back(checked_count(nodes, CountedIn::Nodes, cluster));
  }
  for (const int gpus : request.gpu_list) {
    sizes.push_back(checked_count(gpus, CountedIn::Gpus, cluster));
  }
  return sizes;
}

std::variant<std::vector<std::int64_t>, std::string> read_numbers(std::string_view text) {
  std::vector<std::int64_t> numbers;
  const std::size_t range = text.find(kRange);
  const bool is_range = range != std::string_view::npos;
  for (const std::string& part : split(is_range ? text.substr(0, range) : text, ",")) {
    auto number = read_number(part);
    if (auto* problem = std::get_if<std::string>(&number)) return std::move(*problem);
    numbers.push_back(std::get<std::int64_t>(number));
  }
  if (is_range) {
    auto high = read_number(text.substr(range + kRange.size()));
    if (auto* problem = std::get_if<std::string>(&high)) return std::move(*problem);
    if (numbers.size() > 1) return fmt::format("'{}' is neither a list nor a range", text);
    numbers = powers_of_two(numbers.front(), std::get<std::int64_t>(high));
    if (numbers.empty()) return fmt::format("no power of two is in {}", text);
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  if (numbers.size() > kMost) return fmt::format("more than {} values", kMost);
  return numbers;
}

std::variant<double, std::string> read_large_count(std::string_view text) {
  constexpr double kLargest = 1e18;
  const std::string plain = without_grouping(text);
  std::string_view digits = plain;
  double factor = 1.0;
  constexpr std::pair<char, double> kSuffixes[] = {{'k', 1e3}, {'K', 1e3}, {'M', 1e6},
                                                   {'B', 1e9}, {'G', 1e9}, {'T', 1e12}};
  for (const auto& [suffix, value] : kSuffixes) {
    if (!plain.ends_with(suffix)) continue;
    digits.remove_suffix(1);
    factor = value;
  }
  const std::optional<double> number = parse_number(digits);
  if (!number || *number <= 0.0 || *number * factor > kLargest) {
    return fmt::format("'{}' is not a count above zero such as 300B, 1T or 15e12", text);
  }
  return *number * factor;
}

}  // namespace plansearch
