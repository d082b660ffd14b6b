// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters (LoRA, arXiv:2106.09685): to a frozen product y = x W an adapter adds (x A) B
// with A of in x rank and B of rank x out. One adapter belongs to one module of
// the model's own code, as in peft: products of one fused module share their A.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/ranges.hpp"
#include "plansearch/error.hpp"
#include "workload/block_builder.hpp"

namespace plansearch {
namespace {

/// The part of a product that a word names. Words name modules of the model's own code, each one or
/// more products; a gated input holds two modules.
enum class Half { Whole, Gate, Up };

struct Target {
  std::string word;
  std::vector<std::vector<std::string>> modules;
  Half half = Half::Whole;
};

const std::vector<Target>& separate_targets() {
  static const std::vector<Target> kTargets{
      {"q", {{"query"}}},
      {"k", {{"key"}}},
      {"v", {{"value"}}},
      {"q_down", {{"query_down"}}},
      {"q_up", {{"query_up"}}},
      {"kv_down", {{"kv_down", "rope_key"}}},
      {"kv_up", {{"kv_up"}}},
      {"o", {{"projection"}}},
      {"gate", {{"mlp_in"}, {"shared_in"}}, Half::Gate},
      {"up", {{"mlp_in"}, {"shared_in"}}, Half::Up},
      {"down", {{"mlp_out"}, {"shared_out"}}},
  };
  return kTargets;
}

/// Targets of models in which one product makes query, key and value, and another one the gate and
/// its partner.
const std::vector<Target>& fused_targets() {
  static const std::vector<Target> kTargets{
      {"qkv", {{"query", "key", "value"}}},
      {"o", {{"projection"}}},
      {"gate_up", {{"mlp_in"}}},
      {"down", {{"mlp_out"}}},
  };
  return kTargets;
}

bool has_target(const ModelDescription& model, const std::string& word) {
  const std::optional<LatentAttention>& latent = model.attention.latent;
  const bool compressed =
      latent ? latent->query_rank.has_value() : model.attention.query_rank.has_value();
  if (word == "q") return !compressed;
  if (word == "k") return !latent.has_value();
  if (word == "v") return !latent.has_value() && !model.attention.value_is_key;
  if (word == "q_down" || word == "q_up") return compressed;
  if (word == "kv_down" || word == "kv_up") return latent.has_value();
  if (word == "gate") return model.mlp.gated;
  return true;
}

std::vector<Target> targets_of(const ModelDescription& model) {
  std::vector<Target> targets;
  const bool fused = model.attention.fused_projection;
  for (Target target : fused ? fused_targets() : separate_targets()) {
    if (!has_target(model, target.word)) continue;
    if (!model.mlp.gated) {
      target.half = Half::Whole;
      if (target.word == "gate_up") target.word = "up";
    }
    targets.push_back(std::move(target));
  }
  return targets;
}

/// Words for several targets at once, other than all-linear.
constexpr const char* kAttention = "attention";
constexpr const char* kMlp = "mlp";

/// Tables of the vocabulary, trained whole together with adapters (peft's modules_to_save).
constexpr const char* kEmbedding = "embedding";
constexpr const char* kHead = "head";

bool is_table(const Network& network, const Parameter& parameter) {
  return parameter.kind == ParameterClass::Embedding &&
         std::ranges::any_of(parameter.dims, [&](DimId dim) {
           return network.dimension(dim).role == DimRole::Vocab;
         });
}

/// A table that both ends share is trained where either is named.
void freeze_all_but_tables(Network& network, const std::vector<std::string>& words) {
  const auto named = [&](const Block& block) {
    const char* word = block.kind == BlockKind::Head ? kHead : kEmbedding;
    return contains(words, word);
  };
  std::set<std::string> trained;
  for (const Block& block : network.blocks) {
    for (const Parameter& parameter : block.parameters) {
      if (is_table(network, parameter) && named(block)) trained.insert(parameter.shared_key);
    }
  }
  trained.erase("");
  for (Block& block : network.blocks) {
    for (Parameter& parameter : block.parameters) {
      const bool whole =
          is_table(network, parameter) && (named(block) || trained.contains(parameter.shared_key));
      parameter.trainable = whole ? Trainable::Yes : Trainable::No;
    }
  }
}

bool stands_for(const std::string& word, const Target& target) {
  static const std::array<std::string, 4> kMlpTargets{"gate", "up", "gate_up", "down"};
  const bool mlp = contains(kMlpTargets, target.word);
  return word == target.word || word == kAllLinear || word == (mlp ? kMlp : kAttention);
}

/// One adapter: the products that share its A.
struct Site {
  std::vector<std::size_t> operators;
  std::string word;
  Half half = Half::Whole;
};

std::vector<Site> sites_in(const Block& block, const std::vector<Target>& targets) {
  static const std::array<std::string, 2> kPrefixes{"", "cross_"};
  std::vector<Site> sites;
  for (const Target& target : targets) {
    for (const auto& module : target.modules) {
      for (const std::string& prefix : kPrefixes) {
        Site site{{}, prefix + target.word, target.half};
        for (std::size_t i = 0; i < block.operators.size(); ++i) {
          const auto named = [&](const std::string& name) {
            return block.operators[i].name == prefix + name;
          };
          if (std::ranges::any_of(module, named)) site.operators.push_back(i);
        }
        if (site.operators.empty()) continue;
        if (target.modules.size() > 1)
          site.word = block.operators[site.operators.front()].name + "." + site.word;
        sites.push_back(std::move(site));
      }
    }
  }
  return sites;
}

class Adapters {
 public:
  Adapters(Network& network, Block& block, std::int64_t rank)
      : network_(network),
        block_(block),
        rank_(dimension(network, "lora_rank", DimRole::Latent, rank)) {}

  /// Each behind the last of the products that run in one launch with its own.
  void add(const std::vector<Site>& sites) {
    old_ = std::move(block_.operators);
    block_.operators.clear();
    std::vector<const Site*> waiting;
    for (std::size_t i = 0; i < old_.size(); ++i) {
      block_.operators.push_back(renamed(old_[i]));
      for (const Site& site : sites) {
        if (site.operators.back() == i) waiting.push_back(&site);
      }
      const bool launch_goes_on = !old_[i].fused_key.empty() && i + 1 < old_.size() &&
                                  old_[i + 1].fused_key == old_[i].fused_key;
      if (launch_goes_on) continue;
      for (const Site* site : waiting) append(*site);
      waiting.clear();
    }
  }

 private:
  /// Readers take the sum, and what is kept of the frozen result is kept of the sum.
  [[nodiscard]] TensorId now(TensorId id) const {
    const auto found = sums_.find(id);
    return found == sums_.end() ? id : found->second;
  }

  [[nodiscard]] Operator renamed(Operator op) const {
    for (TensorId& id : op.inputs) id = now(id);
    for (Saved& saved : op.saved) saved.tensor = now(saved.tensor);
    return op;
  }

  TensorId tensor(std::string name, Dims dims) {
    block_.tensors.push_back({std::move(name), std::move(dims)});
    return static_cast<TensorId>(block_.tensors.size() - 1);
  }

  TensorId product(const std::string& name, TensorId in, const Dims& contracted,
                   const Dims& outputs) {
    const Dims rows = without(block_.tensor(in).dims, contracted);
    Operator op;
    op.name = name;
    op.kind = OperatorKind::Matmul;
    op.loop = concat(concat(rows, contracted), outputs);
    op.inputs = {in};
    Parameter& weight = block_.parameters.emplace_back();
    weight.name = name + ".weight";
    weight.dims = concat(contracted, outputs);
    op.parameters = {static_cast<ParameterId>(block_.parameters.size() - 1)};
    op.outputs = {tensor(name, concat(rows, outputs))};
    op.saved = {in};
    op.flops_per_point = 2.0;
    op.backward_kernels = 2;
    block_.operators.push_back(std::move(op));
    return block_.operators.back().outputs.front();
  }

  void append(const Site& site) {
    const Operator& first = old_[site.operators.front()];
    const TensorId in = now(first.inputs.front());
    const Dims weight = block_.parameter(first.parameters.front()).dims;
    const Dims contracted = without(weight, without(weight, block_.tensor(in).dims));
    const TensorId low = product(site.word + ".lora_a", in, contracted, {rank_});
    for (const std::size_t index : site.operators) {
      const Operator& base = old_[index];
      const std::string name = site.operators.size() > 1 ? base.name : site.word;
      const Dims outputs = without(block_.parameter(base.parameters.front()).dims, contracted);
      const TensorId back = product(name + ".lora_b", low, {rank_},
                                    site.half == Half::Whole ? outputs : half_of(outputs));
      add_sum(name + ".adapted", base.outputs.front(), back);
    }
  }

  /// The dimensions without the one that distinguishes the gate from its partner.
  [[nodiscard]] Dims half_of(const Dims& outputs) const {
    Dims half;
    for (const DimId id : outputs) {
      if (network_.dimension(id).role != DimRole::Other) half.push_back(id);
    }
    return half;
  }

  void add_sum(const std::string& name, TensorId base, TensorId back) {
    const TensorId before = now(base);
    Operator op;
    op.name = name;
    op.kind = OperatorKind::Elementwise;
    op.loop = block_.tensor(before).dims;
    op.inputs = {before, back};
    op.outputs = {tensor(name, op.loop)};
    for (Operator& producer : block_.operators) {
      const bool makes = contains(producer.outputs, before);
      if (!makes) continue;
      for (const Saved& saved : producer.saved) {
        if (saved.tensor != before) continue;
        op.saved.emplace_back(op.outputs.front(), saved.as, saved.count);
      }
      std::erase_if(producer.saved, [&](const Saved& saved) { return saved.tensor == before; });
    }
    sums_[base] = op.outputs.front();
    block_.operators.push_back(std::move(op));
  }

  Network& network_;
  Block& block_;
  DimId rank_;
  std::vector<Operator> old_;
  std::map<TensorId, TensorId> sums_;  ///< by the result of a frozen product
};

}  // namespace

std::vector<std::string> adapter_targets(const ModelDescription& description) {
  std::vector<std::string> words;
  for (const Target& target : targets_of(description)) words.push_back(target.word);
  return words;
}

std::vector<std::string> default_adapter_targets(const ModelDescription& description) {
  const std::vector<std::string> words = adapter_targets(description);
  const auto has = [&](const char* word) { return contains(words, word); };
  if (has("q") && has("v")) return {"q", "v"};
  return has("qkv") ? std::vector<std::string>{"qkv"} : std::vector<std::string>{kAllLinear};
}

std::optional<AdapterProblem> adapter_problem(const ModelDescription& description) {
  constexpr std::int64_t kHighestRank = 1 << 16;
  if (description.stack == StackKind::Graph) {
    return AdapterProblem{"adapters have places in transformers only",
                          "write them as operators of the graph, and freeze the rest"};
  }
  const LoraDescription& lora = *description.training.lora;
  if (lora.rank < 1 || lora.rank > kHighestRank) {
    return AdapterProblem{fmt::format("rank {} is not from 1 to {}", lora.rank, kHighestRank),
                          "common ranks are 8 to 64"};
  }
  const std::vector<std::string> words = adapter_targets(description);
  const std::string remedy = fmt::format(
      "{} has {}; {}, {} or {} for several; beside them {} and {}, trained whole", description.name,
      fmt::join(words, ", "), kAttention, kMlp, kAllLinear, kEmbedding, kHead);
  if (lora.targets.empty()) return AdapterProblem{"no target is named", remedy};
  const std::vector<Target> targets = targets_of(description);
  const auto whole = [](const std::string& word) { return word == kEmbedding || word == kHead; };
  if (std::ranges::all_of(lora.targets, whole)) {
    return AdapterProblem{"no target has an adapter", remedy};
  }
  for (const std::string& word : lora.targets) {
    if (whole(word)) continue;
    const bool known = std::ranges::any_of(
        targets, [&](const Target& target) { return stands_for(word, target); });
    if (!known) return AdapterProblem{fmt::format("no module '{}'", word), remedy};
  }
  return std::nullopt;
}

void add_adapters(Network& network, const ModelDescription& model) {
  const LoraDescription& lora = *model.training.lora;
  std::vector<Target> chosen;
  for (Target& target : targets_of(model)) {
    const auto asked = [&](const std::string& word) { return stands_for(word, target); };
    if (std::ranges::any_of(lora.targets, asked)) {
      chosen.push_back(std::move(target));
    }
  }
  PLANSEARCH_CHECK(!chosen.empty());
  freeze_all_but_tables(network, lora.targets);
  for (Block& block : network.blocks) {
    const std::vector<Site> sites = sites_in(block, chosen);
    if (!sites.empty()) Adapters(network, block, lora.rank).add(sites);
  }
}

}  // namespace plansearch
