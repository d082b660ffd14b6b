// SPDX-License-Identifier: Apache-2.0
#include "io/model/graph/dimension_reader.hpp"
#include "base/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "base/checked.hpp"
#include "io/document/fields.hpp"
#include "io/model/graph/graph_words.hpp"
#include "io/model/model_sections.hpp"

namespace plansearch::io {
namespace {

constexpr std::size_t kMostDimensions = 2'000;
constexpr int kMostBrackets = 16;

bool is_name(std::string_view text) {
  return !text.empty() && !is_digit(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); });
}

/// Reads a formula from left to right; the first fault ends it.
class FormulaReader : TextCursor {
 public:
  FormulaReader(std::string_view text,
                const std::function<std::optional<std::int64_t>(std::string_view)>& size_of)
      : TextCursor(text), size_of_(size_of) {}

  std::variant<std::int64_t, std::string> run() {
    const std::int64_t value = sum(0);
    skip();
    if (problem_.empty() && at_ < text_.size()) malformed();
    if (!problem_.empty()) return problem_;
    return value;
  }

 private:
  void fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  void malformed() {
    fail(fmt::format("'{}' is neither a number nor a size such as 4*h or (side/16)*(side/16)",
                     text_));
  }

  std::int64_t sum(int depth) {
    std::int64_t value = product(depth);
    while (problem_.empty()) {
      const bool less = take('-');
      if (!less && !take('+')) break;
      const std::int64_t other = product(depth);
      value += less ? -other : other;
    }
    return value;
  }

  std::int64_t product(int depth) {
    std::int64_t value = factor(depth);
    while (problem_.empty()) {
      const bool divides = take('/');
      if (!divides && !take('*')) break;
      const std::int64_t other = factor(depth);
      if (!problem_.empty()) break;
      if (divides) {
        if (other == 0 || value % other != 0) {
          fail(fmt::format("'{}': {} is not a multiple of {}", text_, value, other));
        } else {
          value /= other;
        }
        continue;
      }
      const auto made = product_within(kLengthRange.high, std::array{value, other});
      if (!made) fail(fmt::format("'{}' is beyond {}", text_, kLengthRange.high));
      value = made.value_or(0);
    }
    return value;
  }

  std::int64_t factor(int depth) {
    if (take('(')) {
      if (depth >= kMostBrackets) fail(fmt::format("'{}' has too many brackets", text_));
      const std::int64_t value = problem_.empty() ? sum(depth + 1) : 0;
      if (!take(')')) malformed();
      return value;
    }
    const std::string_view word = take_word();
    if (is_name(word)) {
      const auto size = size_of_(word);
      if (!size) fail(fmt::format("'{}' is not a number: shapes are static", word));
      return size.value_or(0);
    }
    const auto value = parse_as<std::int64_t>(word);
    if (!value || *value > kLengthRange.high) malformed();
    return value.value_or(0);
  }

  const std::function<std::optional<std::int64_t>(std::string_view)>& size_of_;
  std::string problem_;
};

struct WrittenDimension {
  std::string name;
  Node extent;
  DimRole role = DimRole::Other;
  std::int64_t value = 1;

  [[nodiscard]] bool is_number() const {
    return extent.is_scalar() && std::ranges::all_of(extent.text(), is_digit);
  }
};

std::vector<WrittenDimension> written_dimensions(const Node& map) {
  std::vector<WrittenDimension> dims;
  for (const Node::Entry& entry : map.entries()) {
    if (!is_name(entry.key)) {
      throw InputError(entry.where, fmt::format("'{}' is not a name of a dimension", entry.key),
                       "letters, digits and underscores");
    }
    WrittenDimension dim{entry.key, entry.value};
    if (entry.value.is_map()) {
      dim.extent = entry.value.at("extent");
      Fields(entry.value).take("role", dim.role, kRoles);
    }
    dims.push_back(std::move(dim));
  }
  if (dims.size() > kMostDimensions) {
    map.fail(fmt::format("more than {} dimensions", kMostDimensions));
  }
  return dims;
}

/// Sizes that are numbers, or as many as `replaced` says; then those that follow from them.
void evaluate(std::vector<WrittenDimension>& dims,
              const std::map<std::string, std::int64_t>& replaced) {
  std::map<std::string, std::int64_t, std::less<>> known;
  const auto size_of = [&](std::string_view name) {
    const auto found = known.find(name);
    return found == known.end() ? std::nullopt : std::optional(found->second);
  };
  for (WrittenDimension& dim : dims) {
    const auto other = replaced.find(dim.name);
    if (other != replaced.end()) {
      dim.value = other->second;
    } else if (!dim.extent.is_scalar() || dim.is_number()) {
      dim.value = dim.extent.integer(kLengthRange);
    } else {
      const auto made = evaluate_extent(dim.extent.text(), size_of);
      const auto* value = std::get_if<std::int64_t>(&made);
      const bool legal =
          value != nullptr && *value >= kLengthRange.low && *value <= kLengthRange.high;
      if (!legal) {
        dim.extent.report(value == nullptr ? std::get<std::string>(made)
                                           : fmt::format("'{}' is {}", dim.extent.text(), *value),
                          "write one extent, or how it follows from dimensions above it; plans "
                          "scale the batch");
      }
      dim.value = legal ? *value : 1;
    }
    known.emplace(dim.name, dim.value);
  }
}

/// The dimensions that hold the tokens, and those of their keys: numbers of one size, which another
/// number of tokens replaces.
std::map<std::string, std::int64_t> replaced_tokens(const Node& at,
                                                    const std::vector<WrittenDimension>& dims) {
  const WrittenDimension* longest = nullptr;
  std::vector<std::string> numbers;
  std::set<std::int64_t> sizes;
  for (const WrittenDimension& dim : dims) {
    if (dim.role != DimRole::Sequence) continue;
    if (longest == nullptr || dim.value > longest->value) longest = &dim;
    if (!dim.is_number()) continue;
    numbers.push_back(dim.name);
    sizes.insert(dim.value);
  }
  if (longest == nullptr) at.fail("no dimension has the role sequence");
  if (!longest->is_number()) {
    at.fail(fmt::format("{} is {}: its length follows from other sizes", longest->name,
                        longest->extent.text()),
            "change one of them, as in --set model.dims.NAME=NUMBER");
  }
  if (sizes.size() > 1) {
    at.fail(fmt::format("{} are sequences of several lengths", fmt::join(numbers, ", ")),
            "change one of them, as in --set model.dims.NAME.extent=NUMBER");
  }
  const std::int64_t tokens = at.integer(kLengthRange);
  std::map<std::string, std::int64_t> replaced;
  for (const WrittenDimension& dim : dims) {
    const bool holds = dim.role == DimRole::Sequence || dim.role == DimRole::KeySequence;
    if (holds && dim.is_number() && dim.value == longest->value) replaced[dim.name] = tokens;
  }
  return replaced;
}

}  // namespace

std::variant<std::int64_t, std::string> evaluate_extent(
    std::string_view text,
    const std::function<std::optional<std::int64_t>(std::string_view)>& size_of) {
  return FormulaReader(text, size_of).run();
}

DimNames read_dimensions(const Node& root, Network& network) {
  const Node map = root.at("dims");
  std::vector<WrittenDimension> dims = written_dimensions(map);
  evaluate(dims, {});
  if (const auto tokens = root.find("seq_len")) evaluate(dims, replaced_tokens(*tokens, dims));
  DimNames names;
  for (const WrittenDimension& dim : dims) {
    names.emplace(dim.name, static_cast<DimId>(network.dimensions.size()));
    network.dimensions.push_back({dim.name, dim.role, dim.value});
  }
  const auto batches = std::ranges::count_if(
      network.dimensions, [](const Dimension& d) { return d.role == DimRole::Batch; });
  if (batches != 1) {
    map.fail(fmt::format("{} dimensions have the role batch", batches),
             "one has it, with extent 1: plans scale it");
  }
  return names;
}

}  // namespace plansearch::io
