// SPDX-License-Identifier: Apache-2.0
// The words of trainers: bitsandbytes' optimizers (8 bits a moment, pages of unified
// memory), preferences (Rafailov et al., arXiv 2305.18290: the loss compares the network with a
// frozen reference on a chosen and a rejected sequence; huggingface/trl trl/trainer/dpo_trainer.py:
// without adapters a second network, with them its own weights, adapters switched off).
#include "question/training_task.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/names.hpp"
#include "base/units.hpp"
#include "io/document/file.hpp"
#include "plansearch/error.hpp"
#include "question/framework_flags.hpp"

namespace plansearch {
namespace {

struct NamedOptimizer {
  std::string_view word;
  std::string_view keeps;  ///< whose states
  bool eight_bits;
  bool pages;
};
constexpr std::array<NamedOptimizer, 7> kNamed{{{"adamw", "adam", false, false},
                                                {"adamw-8bit", "adam", true, false},
                                                {"paged-adamw", "adam", false, true},
                                                {"paged-adamw-8bit", "adam", true, true},
                                                {"lion-8bit", "lion", true, false},
                                                {"paged-lion", "lion", false, true},
                                                {"paged-lion-8bit", "lion", true, true}}};

constexpr std::string_view kPackingHint =
    "it takes a length such as 512, several with their numbers (512x3+2048x1), exponential:MEAN, "
    "lognormal:MEAN:SIGMA, or a file with a length a line";
constexpr std::int64_t kLongest = std::int64_t{1} << 40;

[[noreturn]] void refuse_packing(std::string_view text, const std::string& why) {
  throw InputError({}, fmt::format("--packing {}: {}", text, why), std::string(kPackingHint));
}

/// A number above zero.
double positive(const std::string& word, std::string_view text) {
  const auto value = parse_number(word);
  if (!value || !(*value > 0.0) || *value > static_cast<double>(kLongest)) {
    refuse_packing(text, fmt::format("'{}' is not a number above 0", word));
  }
  return *value;
}

DocumentLength document(double tokens, double share) {
  return {std::max<std::int64_t>(1, std::llround(tokens)), share};
}

/// A density on a grid wide enough for squares of lengths to have a mean.
template <typename Length, typename Density>
Documents on_grid(double from, double to, Length length, Density density) {
  constexpr int kPoints = 2000;
  Documents documents;
  for (int i = 0; i < kPoints; ++i) {
    const double at = from + (to - from) * (i + 0.5) / kPoints;
    documents.push_back(document(length(at), density(at)));
  }
  return documents;
}

Documents exponential(double mean) {
  constexpr double kFar = 25.0;
  return on_grid(
      0.0, kFar, [&](double at) { return mean * at; }, [](double at) { return std::exp(-at); });
}

Documents lognormal(double mean, double sigma) {
  constexpr double kFar = 8.0;
  const double middle = std::log(mean) - 0.5 * sigma * sigma;
  // Squares weigh what lies two deviations further out.
  return on_grid(
      -kFar, kFar + 2.0 * sigma,
      [&](double at) { return std::min(std::exp(middle + sigma * at), 1e12); },
      [](double at) { return std::exp(-0.5 * at * at); });
}

Documents listed(const std::string& text) {
  Documents documents;
  for (const std::string& item : split(text, "+")) {
    const std::vector<std::string> parts = split(item, "x");
    if (parts.empty() || parts.size() > 2) {
      refuse_packing(text, fmt::format("'{}' is not a length, nor a length x a number", item));
    }
    documents.push_back(document(positive(parts.front(), text),
                                 parts.size() == 2 ? positive(parts.back(), text) : 1.0));
  }
  if (documents.empty()) refuse_packing(text, "no length");
  return documents;
}

Documents in_file(const std::string& path) {
  Documents documents;
  int number = 0;
  for (const std::string& line : split(io::read_file(path), "\n")) {
    ++number;
    std::vector<std::string> cells = split(line, ", \t\r");
    std::erase(cells, "");
    if (cells.empty() || cells.front().starts_with("#")) continue;
    const auto length = parse_number(cells.front());
    const auto count = cells.size() > 1 ? parse_number(cells[1]) : std::optional(1.0);
    const bool good = length && count && *length >= 1.0 && *count > 0.0 && cells.size() <= 2 &&
                      *length <= static_cast<double>(kLongest);
    if (!good && number == 1 && !length) continue;  // names of the columns
    if (!good) {
      throw InputError({path, number, 1}, fmt::format("'{}' is not a length of a document", line),
                       "a line is a length in tokens, and how many documents have it");
    }
    documents.push_back(document(*length, *count));
  }
  if (documents.empty()) throw InputError({path, 1, 1}, "no lengths of documents", "");
  return documents;
}

Documents documents_of(const std::string& text) {
  const std::vector<std::string> parts = split(text, ":");
  if (parts.size() == 2 && parts.front() == "exponential")
    return exponential(positive(parts[1], text));
  if (parts.size() == 3 && parts.front() == "lognormal") {
    const double sigma = positive(parts[2], text);
    if (sigma > 3.0) refuse_packing(text, "a deviation of logarithms is at most 3");
    return lognormal(positive(parts[1], text), sigma);
  }
  const bool list = text.find_first_not_of("0123456789x+.e") == std::string::npos;
  if (list) return listed(text);
  if (parts.size() > 1 && (parts.front() == "exponential" || parts.front() == "lognormal"))
    refuse_packing(text,
                   fmt::format("{} takes {}", parts.front(),
                               parts.front() == "lognormal" ? "a mean and a deviation" : "a mean"));
  return in_file(text);
}

}  // namespace

bool is_tuning(const ProblemRequest& request) {
  return request.task && *request.task != "pretrain";
}

ProblemRequest with_plain_optimizer(ProblemRequest asked) {
  const auto named = std::ranges::find_if(
      kNamed, [&](const NamedOptimizer& one) { return asked.optimizer == one.word; });
  if (named == kNamed.end()) return asked;
  asked.optimizer = std::string(named->keeps);
  if (named->eight_bits && !asked.optimizer_states) asked.optimizer_states = "int8";
  if (named->pages && !asked.paged_states) asked.paged_states = "1";
  return asked;
}

bool lacks_optimizer(const Framework& framework, OptimizerKind optimizer) {
  return optimizer == OptimizerKind::Muon && !framework.matrix_updates;
}

void take_optimizer(Framework& framework, OptimizerKind optimizer) {
  if (optimizer != OptimizerKind::Muon) return;
  if (lacks_optimizer(framework, optimizer)) {
    throw InputError({}, fmt::format("--optimizer muon: {} does not have it", framework.name),
                     "--optimizer adam, or a framework that has it: " +
                         frameworks_that([](const Framework& other) {
                           return other.matrix_updates.has_value();
                         }));
  }
  framework.updates_matrices = true;
  const std::vector<FrameworkRule>& rules = framework.matrix_updates->rules;
  framework.rules.insert(framework.rules.end(), rules.begin(), rules.end());
}

Documents read_documents(const std::string& text, std::int64_t tokens) {
  Documents documents = documents_of(text);
  for (DocumentLength& one : documents) one.tokens = std::min(one.tokens, tokens);
  return documents;
}

void check_packing(const ModelDescription& model, AttentionKind attention) {
  if (model.stack != StackKind::Decoder && model.stack != StackKind::Encoder) {
    throw InputError({}, fmt::format("--packing: {} reads no sequence of documents", model.name),
                     "it is for transformers that read one sequence");
  }
  if (attention == AttentionKind::Unfused) {
    throw InputError({}, "--packing: unfused attention makes the scores of all pairs of tokens",
                     "use --attention flash");
  }
}

void check_pairs(const Framework& framework, const ModelDescription& model) {
  if (model.stack != StackKind::Decoder) {
    throw InputError({}, fmt::format("--task dpo: {} predicts no next token", model.name),
                     "preferences are learned by decoders");
  }
  if (framework.trains_on_pairs) return;
  throw InputError({}, fmt::format("--task dpo: {} has no trainer for pairs", framework.name),
                   "these have: " + frameworks_that([](const Framework& other) {
                     return other.trains_on_pairs;
                   }));
}

void add_reference(Network& network) {
  network.forwards += 1;
  network.reference = true;
}

}  // namespace plansearch
