// SPDX-License-Identifier: Apache-2.0
// Words of small sets: axes, activities, dispatchers, obstacles, parts of a layer, kinds of evidence, tensors on the host.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/names.hpp"
#include "plansearch/axis.hpp"
#include "plansearch/concurrency.hpp"
#include "plansearch/dispatcher.hpp"
#include "plansearch/infeasible.hpp"
#include "plansearch/layer_module.hpp"
#include "plansearch/provenance.hpp"

namespace plansearch {
namespace {

constexpr std::array<std::string_view, kAxisCount> kAxisNames{
    "in",     "out",         "depth", "context", "data", "pipeline", "expert-tensor",
    "expert", "expert-data", "shard", "replica", "t0",   "t1",       "t2",
    "t3",     "t4",          "t5",    "t6",      "t7"};

std::string joined(AxisSet axes, char between, std::string_view (*name)(Axis)) {
  std::string text;
  for_each_axis(axes, [&](Axis axis) {
    if (!text.empty()) text += between;
    text += name(axis);
  });
  return text;
}

constexpr std::string_view kAny = "any";  // what a search finds

std::string plain(std::string_view name) {
  std::string word = canonical_name(name);
  std::erase(word, '-');
  return word;
}

// NVIDIA/Megatron-LM@d98e8a64 (2026-08-22) megatron/core/transformer/transformer_config.py:
// recompute_modules; CheckpointWithoutOutput in transformer_layer.py, multi_latent_attention.py and
// moe/experts.py.
constexpr std::array<std::string_view, kLayerModuleCount> kModuleWords{
    "core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"};

constexpr std::array<std::string_view, 4> kEvidenceNames = {"measured", "published", "datasheet",
                                                            "assumed"};

constexpr unsigned kModulesFrom = 3;

}  // namespace

std::string_view to_text(Axis axis) {
  return kAxisNames[static_cast<std::size_t>(axis)];
}

std::string_view spoken_name(Axis axis) {
  switch (axis) {
    case Axis::In:
      return "tensor-x";
    case Axis::Out:
      return "tensor";
    case Axis::Depth:
      return "tensor-z";
    default:
      return to_text(axis);
  }
}

std::optional<Axis> parse_axis(std::string_view text) {
  for (std::size_t i = 0; i < kRoleCount; ++i) {
    if (kAxisNames[i] == text) return static_cast<Axis>(i);
  }
  return std::nullopt;
}

std::string spoken_name(AxisSet axes) {
  return joined(axes, '+', [](Axis axis) { return spoken_name(axis); });
}

std::string to_text(AxisSet axes) {
  return joined(axes, ',', [](Axis axis) { return to_text(axis); });
}

std::string_view to_text(Activity activity) {
  constexpr std::array<std::string_view, kActivityCount> kNames{"compute", "local", "fabric",
                                                                "from-host", "to-host"};
  return kNames[static_cast<std::size_t>(activity)];
}

const std::vector<std::string>& dispatcher_names() {
  static const std::vector<std::string> kNames{"own", "all-to-all", "all-gather", "deepep",
                                               "hybridep"};
  return kNames;
}

std::string_view to_text(DispatcherId id) {
  if (id == kAnyDispatcher) return kAny;
  return dispatcher_names().at(static_cast<std::size_t>(id));
}

std::optional<DispatcherId> find_dispatcher(std::string_view word) {
  if (word == kAny) return kAnyDispatcher;
  const auto& names = dispatcher_names();
  const auto found = std::ranges::find_if(
      names, [&](const std::string& name) { return plain(name) == plain(word); });
  if (found == names.end()) return std::nullopt;
  return static_cast<DispatcherId>(found - names.begin());
}

std::string_view to_text(Obstacle obstacle) {
  static constexpr std::array<std::string_view, kObstacleCount> kObstacles{
      "degrees do not multiply to the GPUs",
      "batch not divisible",
      "heads not divisible",
      "key/value heads not divisible",
      "FFN width not divisible",
      "hidden width not divisible",
      "vocabulary not divisible",
      "sequence not divisible",
      "experts not divisible",
      "layers not divisible",
      "more stages than layers",
      "schedule needs other micro-batches",
      "forbidden by the framework",
      "no such feature",
      "out of memory",
      "too long to simulate",
  };
  return kObstacles[static_cast<std::size_t>(obstacle)];
}

std::string legal_values_text(const Infeasible& infeasible) {
  if (!infeasible.legal_numbers.empty()) {
    return fmt::format("legal: {}", fmt::join(infeasible.legal_numbers, ", "));
  }
  if (infeasible.legal_words.empty()) return {};
  return fmt::format("legal: {}", fmt::join(infeasible.legal_words, ", "));
}

std::string to_text(const Infeasible& infeasible) {
  const std::string legal = legal_values_text(infeasible);
  return legal.empty() ? infeasible.detail : fmt::format("{}; {}", infeasible.detail, legal);
}

std::string_view to_text(LayerModule module) {
  return kModuleWords.at(static_cast<std::size_t>(module));
}

std::optional<LayerModule> find_layer_module(std::string_view word) {
  const auto* found = std::ranges::find(kModuleWords, word);
  if (found == kModuleWords.end()) return std::nullopt;
  return static_cast<LayerModule>(found - kModuleWords.begin());
}

std::string to_text(LayerModules modules, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    if (!modules.test(i)) continue;
    if (!text.empty()) text += separator;
    text += kModuleWords[i];
  }
  return text;
}

LayerModules discards_results() {
  return bit_of(LayerModule::LayerNorm) | bit_of(LayerModule::MlaUpProjection) |
         bit_of(LayerModule::MoeActivation);
}

std::string_view to_text(Evidence evidence) {
  return kEvidenceNames.at(static_cast<std::size_t>(evidence));
}

HostTensors host_tensors(HostBits bits) {
  return {(bits & 1U) != 0, (bits & 2U) != 0, (bits & 4U) != 0,
          LayerModules(static_cast<unsigned>(bits) >> kModulesFrom)};
}

HostBits to_bits(const HostTensors& tensors) {
  const unsigned whole = (tensors.optimizer ? 1U : 0U) | (tensors.parameters ? 2U : 0U) |
                         (tensors.activations ? 4U : 0U);
  return static_cast<HostBits>(whole | tensors.modules.to_ulong() << kModulesFrom);
}

const std::vector<std::string>& host_words() {
  static const std::vector<std::string> kWords = [] {
    std::vector<std::string> words{"none", "optimizer", "parameters", "activations"};
    for (std::size_t i = 0; i < kLayerModuleCount; ++i) {
      words.emplace_back(to_text(static_cast<LayerModule>(i)));
    }
    return words;
  }();
  return kWords;
}

std::optional<HostBits> find_host_tensors(std::string_view text) {
  const std::vector<std::string>& words = host_words();
  if (text == words.front() || text == "0") return HostBits{0};
  HostBits bits = 0;
  for (const std::string& word : words_of(text, " ,+")) {
    const auto known = std::find(words.begin() + 1, words.end(), word);
    if (known == words.end()) return std::nullopt;
    bits = static_cast<HostBits>(bits | 1U << (known - words.begin() - 1));
  }
  return bits == 0 ? std::nullopt : std::optional(bits);
}

std::string_view host_text(HostBits bits) {
  static const auto kTexts = [] {
    std::vector<std::string> texts(kHostSets);
    texts.front() = host_words().front();
    for (std::size_t set = 1; set < kHostSets; ++set) {
      for (std::size_t bit = 0; set >> bit != 0; ++bit) {
        if ((set >> bit & 1U) == 0) continue;
        if (!texts[set].empty()) texts[set] += ',';
        texts[set] += host_words()[bit + 1];
      }
    }
    return texts;
  }();
  return kTexts.at(bits);
}

}  // namespace plansearch
