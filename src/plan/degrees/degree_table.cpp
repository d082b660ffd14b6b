// SPDX-License-Identifier: Apache-2.0
#include "plansearch/degree_table.hpp"
#include "base/units.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/names.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr std::array<std::string_view, 3> kRecompute{"none", "selective", "full"};
constexpr std::array<std::string_view, 2> kTemporal{"none", "ring"};
constexpr std::array<std::string_view, 3> kContextKinds{"ring", "ulysses", "all-gather"};

constexpr int kAny = std::numeric_limits<int>::max();

/// The words of a choice that has no table of its own.
template <const auto& Names>
const std::vector<std::string>& list_of() {
  static const std::vector<std::string> kList(Names.begin(), Names.end());
  return kList;
}

template <const auto& Names>
std::optional<int> find_in(std::string_view word) {
  const auto found = std::ranges::find(Names, word);
  if (found == Names.end()) return std::nullopt;
  return static_cast<int>(found - Names.begin());
}

template <const auto& Names>
std::string_view word_in(int value) {
  return Names.at(static_cast<std::size_t>(value));
}

/// The value of a word that another table knows, and its word.
template <auto Find>
std::optional<int> find_by(std::string_view word) {
  const auto value = Find(word);
  return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

template <typename Value>
std::string_view word_of(int value) {
  return to_text(static_cast<Value>(value));
}

constexpr std::string_view kOwn = "own";        // the framework's
constexpr std::string_view kFewest = "fewest";  // what a search finds

/// "own", "fewest", then the parts of a layer.
const std::vector<std::string>& module_words() {
  static const std::vector<std::string> kWords = [] {
    std::vector<std::string> words{std::string(kOwn), std::string(kFewest)};
    for (std::size_t i = 0; i < kLayerModuleCount; ++i) {
      words.emplace_back(to_text(static_cast<LayerModule>(i)));
    }
    return words;
  }();
  return kWords;
}

std::optional<int> find_modules(std::string_view text) {
  if (text == kOwn) return 0;
  if (text == kFewest) return kFewestModules;
  LayerModules modules;
  for (const std::string& word : words_of(text, " ,+")) {
    const auto module = find_layer_module(word);
    if (!module) return std::nullopt;
    modules |= bit_of(*module);
  }
  if (modules.none()) return std::nullopt;
  return static_cast<int>(modules.to_ulong());
}

std::string_view modules_word(int value) {
  static const auto kSets = [] {
    std::array<std::string, kFewestModules + 1U> sets;
    sets.front() = kOwn;
    sets.back() = kFewest;
    for (std::size_t set = 1; set < kFewestModules; ++set) {
      sets[set] = to_text(LayerModules(set), ",");
    }
    return sets;
  }();
  return kSets.at(static_cast<std::size_t>(value));
}

std::string_view host_word(int value) {
  return host_text(static_cast<HostBits>(value));
}

constexpr DegreeRow combined(DegreeRow row) {
  row.combines = true;
  return row;
}

template <auto Member>
constexpr DegreeRow row(Degree degree, std::string_view key, DegreeKind kind, int low, int high,
                        std::string_view help) {
  return {.degree = degree,
          .key = key,
          .kind = kind,
          .low = low,
          .high = high,
          .help = help,
          .get = [](const PlanDegrees& plan) { return static_cast<int>(plan.*Member); },
          .set =
              [](PlanDegrees& plan, int value) {
                plan.*Member = static_cast<std::remove_reference_t<decltype(plan.*Member)>>(value);
              }};
}

template <auto Member>
constexpr DegreeRow number(Degree degree, std::string_view key, std::string_view help, int low = 1,
                           int high = kAny) {
  return row<Member>(degree, key, DegreeKind::Number, low, high, help);
}

template <auto Member>
constexpr DegreeRow words(Degree degree, std::string_view key, std::string_view help,
                          const std::vector<std::string>& (*all)(),
                          std::optional<int> (*find)(std::string_view),
                          std::string_view (*word)(int)) {
  DegreeRow result = row<Member>(degree, key, DegreeKind::Word, 0, kAny, help);
  result.words = all;
  result.find = find;
  result.word = word;
  return result;
}

using D = Degree;
using P = PlanDegrees;

constexpr std::array<DegreeRow, kDegreeCount> kTable{
    {number<&P::data>(D::Data, "dp", "data-parallel degree"),
     number<&P::pipeline>(D::Pipeline, "pp", "pipeline stages"),
     number<&P::chunks>(D::Chunks, "vpp", "model chunks per stage", 1, 65536),
     number<&P::tensor_in>(D::TensorIn, "tp_x", "tensor axis that contracts (forward all-reduce)"),
     number<&P::tensor_out>(D::TensorOut, "tp_y", "tensor axis of outputs (backward all-reduce)"),
     number<&P::tensor_depth>(D::TensorDepth, "tp_z", "tensor axis that shards weights and batch"),
     number<&P::context>(D::Context, "cp", "context-parallel degree"),
     words<&P::context_kind>(D::ContextKind, "cp_kind", "how attention is split over cp",
                             list_of<kContextKinds>, find_in<kContextKinds>,
                             word_in<kContextKinds>),
     number<&P::expert>(D::Expert, "ep", "expert-parallel degree, spans dp x cp x tp"),
     number<&P::expert_tensor>(D::ExpertTensor, "etp", "tensor-parallel degree inside an expert"),
     number<&P::zero>(D::Zero, "zero", "0: nothing, 1: optimizer, 2: gradients, 3: parameters", 0,
                      3),
     number<&P::shard_group>(D::ShardGroup, "shard_group",
                             "data ranks that share one ZeRO copy (hybrid shard); 0: all", 0),
     row<&P::sequence_parallel>(D::SequenceParallel, "sp", DegreeKind::Switch, 0, 1,
                                "sequence parallelism with tp"),
     words<&P::temporal>(D::Temporal, "temporal",
                         "ring: gathers and scatters of sp in steps under products",
                         list_of<kTemporal>, find_in<kTemporal>, word_in<kTemporal>),
     number<&P::micro_batch>(D::MicroBatch, "micro_batch", "sequences per device and micro-batch"),
     number<&P::pieces>(D::Pieces, "overdecompose",
                        "pieces of a micro-batch: messages of one run under kernels of another", 1,
                        64),
     words<&P::recompute>(D::Recompute, "recompute", "activations computed again in backward",
                          list_of<kRecompute>, find_in<kRecompute>, word_in<kRecompute>),
     number<&P::recompute_layers>(D::RecomputeLayers, "recompute_layers",
                                  "layers of every chunk, its first ones, that full recomputation "
                                  "repeats; 0: all",
                                  0),
     words<&P::schedule>(D::Schedule, "schedule", "pipeline schedule", schedule_names,
                         find_by<find_schedule>, word_of<ScheduleId>),
     combined(words<&P::modules>(D::RecomputeModules, "recompute_modules",
                                 "parts of a layer that selective recomputation runs again",
                                 module_words, find_modules, modules_word)),
     words<&P::dispatcher>(D::Dispatcher, "dispatcher", "how tokens reach their experts",
                           dispatcher_names, find_by<find_dispatcher>, word_of<DispatcherId>),
     combined(words<&P::on_host>(D::Offload, "offload",
                                 "what lives in host memory: optimizer (states and update), "
                                 "parameters, activations, or modules such as core_attn",
                                 host_words, find_by<find_host_tensors>, host_word))}};

/// Rows are found by their place.
constexpr bool in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].degree) != i) return false;
  }
  return true;
}
static_assert(in_order());

}  // namespace

const std::array<DegreeRow, kDegreeCount>& degree_table() {
  return kTable;
}

const DegreeRow& row_of(Degree degree) {
  return kTable[static_cast<std::size_t>(degree)];
}

std::string flag_of(std::string_view key) {
  std::string flag = fmt::format("--{}", key);
  std::ranges::replace(flag, '_', '-');
  return flag;
}

std::string_view key_of(Degree degree, const PinnedDegrees& pinned) {
  const bool grid = pinned.has(Degree::TensorIn) || pinned.has(Degree::TensorDepth);
  return degree == kTensorAlias.degree && !grid ? kTensorAlias.key : row_of(degree).key;
}

std::string value_text(Degree degree, int value) {
  const DegreeRow& row = row_of(degree);
  if (row.kind != DegreeKind::Word) return fmt::format("{}", value);
  return std::string(row.word(value));
}

std::optional<int> parse_value(Degree degree, std::string_view text) {
  const DegreeRow& row = row_of(degree);
  if (row.kind == DegreeKind::Word) return row.find(text);
  const auto value = parse_as<std::int64_t>(text);
  if (!value || !in_range(degree, *value)) return std::nullopt;
  return static_cast<int>(*value);
}

bool in_range(Degree degree, std::int64_t value) {
  const DegreeRow& row = row_of(degree);
  return value >= row.low && value <= row.high;
}

std::string legal_text(Degree degree) {
  const DegreeRow& row = row_of(degree);
  if (row.kind == DegreeKind::Word) {
    return fmt::format("{} of {}", row.combines ? "some" : "one", fmt::join(row.words(), ", "));
  }
  if (row.high == kAny) return fmt::format("at least {}", row.low);
  return fmt::format("from {} to {}", row.low, row.high);
}

PlanDegrees with_pinned(PlanDegrees plan, const PinnedDegrees& pinned) {
  for (const DegreeRow& row : kTable) {
    if (const auto value = pinned.get(row.degree)) row.set(plan, *value);
  }
  return plan;
}

PinnedDegrees to_pinned(const PlanDegrees& plan) {
  PinnedDegrees pinned;
  const bool grid = plan.tensor_in > 1 || plan.tensor_depth > 1;
  for (const DegreeRow& row : kTable) {
    const bool axis = row.degree == Degree::TensorIn || row.degree == Degree::TensorDepth;
    if (grid || !axis) pinned.pin(row.degree, row.get(plan));
  }
  return pinned;
}

std::string to_text(const PinnedDegrees& pinned) {
  std::vector<std::string> parts;
  for (const DegreeRow& row : kTable) {
    const auto value = pinned.get(row.degree);
    if (!value) continue;
    parts.push_back(fmt::format("{} {}", flag_of(key_of(row.degree, pinned)).substr(2),
                                value_text(row.degree, *value)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string_view to_text(Recompute value) {
  return kRecompute.at(static_cast<std::size_t>(value));
}

std::string_view to_text(ContextKind value) {
  return kContextKinds.at(static_cast<std::size_t>(value));
}

}  // namespace plansearch
