// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plansearch/error.hpp"
#include "plansearch/model_description.hpp"
#include "workload/block_builder.hpp"
#include "workload/network_edges.hpp"

namespace plansearch {
namespace {

class Findings {
 public:
  void positive(const char* what, std::int64_t value) {
    if (value < 1) add(fmt::format("{} must be at least 1, not {}", what, value));
  }
  void not_negative(const char* what, std::int64_t value) {
    if (value < 0) add(fmt::format("{} must not be negative, but is {}", what, value));
  }
  void add(std::string text) { found_.push_back(std::move(text)); }
  [[nodiscard]] std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

void check_attention(const AttentionDescription& a, Findings& f) {
  f.positive("heads", a.heads);
  f.positive("kv_heads", a.kv_heads);
  if (a.heads > 0 && a.kv_heads > 0 && a.heads % a.kv_heads != 0) {
    f.add(fmt::format("heads {} is not a multiple of kv_heads {}", a.heads, a.kv_heads));
  }
  if (a.positions == PositionKind::Relative) f.positive("relative_buckets", a.relative_buckets);
  if (a.window.has_value()) f.positive("window", *a.window);
  f.not_negative("full_attention_every", a.full_attention_every);
  f.not_negative("leading_full", a.leading_full);
  if (!a.latent.has_value()) {
    f.positive("head_size", a.head_size);
    return;
  }
  if (a.latent->query_rank.has_value()) f.positive("latent query_rank", *a.latent->query_rank);
  f.positive("latent kv_rank", a.latent->kv_rank);
  f.positive("latent nope_size", a.latent->nope_size);
  f.positive("latent rope_size", a.latent->rope_size);
  f.positive("latent value_size", a.latent->value_size);
}

void check_moe(const MoeDescription& moe, std::int64_t layers, Findings& f) {
  f.positive("experts", moe.experts);
  f.positive("top_k", moe.top_k);
  f.positive("expert_width", moe.expert_width);
  f.not_negative("shared_width", moe.shared_width);
  f.not_negative("leading_dense", moe.leading_dense);
  f.positive("every", moe.every);
  for (const std::vector<std::int64_t>* named : {&moe.dense_layers, &moe.layers}) {
    for (const std::int64_t layer : *named) {
      if (layer >= 0 && layer < layers) continue;
      f.add(fmt::format("experts name layer {} of a network with {}", layer, layers));
      break;
    }
  }
  if (moe.top_k > moe.experts) {
    f.add(fmt::format("top_k {} is more than the {} experts", moe.top_k, moe.experts));
  }
  if (moe.capacity_factor.has_value() && !(*moe.capacity_factor > 0.0)) {
    f.add(fmt::format("capacity_factor must be positive, not {}", *moe.capacity_factor));
  }
  const Routing routing{moe.experts,   moe.top_k,  moe.capacity_factor,
                        moe.imbalance, moe.groups, moe.top_groups};
  for (std::string& fault : routing_faults(routing)) f.add(std::move(fault));
  if (!(moe.imbalance >= 1.0)) {
    f.add(fmt::format("imbalance is the busiest over the mean and at least 1, not {}",
                      moe.imbalance));
  }
}

bool has_dense_layers(const ModelDescription& model) {
  if (!model.moe.has_value()) return true;
  const MoeDescription& moe = *model.moe;
  if (!moe.layers.empty()) return static_cast<std::int64_t>(moe.layers.size()) < model.layers;
  return moe.leading_dense > 0 || moe.every > 1 || !moe.dense_layers.empty();
}

void check_vision(const VisionDescription& v, Findings& f) {
  f.positive("image_size", v.image_size);
  f.positive("patch_size", v.patch_size);
  f.positive("channels", v.channels);
  f.positive("classes", v.classes);
  if (v.patch_size > 0 && v.image_size % v.patch_size != 0) {
    f.add(fmt::format("image_size {} is not a multiple of patch_size {}", v.image_size,
                      v.patch_size));
  }
}

/// Layers that attend to chosen keys have equally many, and the first of them chooses.
void check_choices(const ModelDescription& model, Findings& f) {
  const IndexDescription* first = nullptr;
  const auto check = [&](const std::string& mixer) {
    for (const std::string& name : mixers_of(mixer)) {
      const AttentionDescription* attention = attention_called(model, name);
      if (attention == nullptr || !attention->index) continue;
      const IndexDescription& index = *attention->index;
      if (first == nullptr && index.shared) f.add("the first layer with an index shares a choice");
      if (first == nullptr) first = &index;
      if (index.keys == first->keys) continue;
      f.add(fmt::format("an index chooses {} keys, another {}", first->keys, index.keys));
      return false;
    }
    return true;
  };
  if (model.list.layer_mixers.empty()) {
    check(kAttentionWord);
    return;
  }
  for (const auto* mixers : {&model.list.layer_mixers, &model.list.prediction_mixers})
    if (!std::ranges::all_of(*mixers, check)) return;
}

void check_embedding(const ModelDescription& model, Findings& f) {
  const EmbeddingDescription& e = model.embedding;
  f.positive("vocab", e.vocab);
  if (e.width.has_value()) f.positive("embedding width", *e.width);
  f.not_negative("position_rows", e.position_rows);
  f.not_negative("token_types", e.token_types);
  f.positive("seq_len", model.training.seq_len);
  if (model.attention.positions == PositionKind::Learned && e.position_rows == 0) {
    f.add("learned positions need position_rows");
  }
}

}  // namespace

std::vector<std::string> contradictions(const ModelDescription& model) {
  if (model.stack == StackKind::Graph) return {};  // its reader has checked it
  Findings f;
  f.positive("layers", model.layers);
  f.positive("hidden", model.hidden);
  f.not_negative("mtp_layers", model.mtp_layers);
  check_attention(model.attention, f);
  if (has_dense_layers(model)) f.positive("mlp width", model.mlp.width);
  if (model.moe.has_value()) check_moe(*model.moe, model.layers, f);
  const bool vision = model.stack == StackKind::Vision;
  const bool pair = model.stack == StackKind::EncoderDecoder;
  if (vision != model.vision.has_value()) f.add("a vision stack needs vision sizes, others none");
  if (pair != model.decoder.has_value()) f.add("an encoder-decoder needs a decoder, others none");
  if (model.vision.has_value()) check_vision(*model.vision, f);
  if (model.tower && model.stack != StackKind::Decoder) f.add("a tower stands before a decoder");
  if (!vision) check_embedding(model, f);
  check_choices(model, f);
  if (const auto longest = longest_sequence(model);
      longest.value_or(model.training.seq_len) < model.training.seq_len) {
    f.add(fmt::format("seq_len {} is beyond the {} learned positions", model.training.seq_len,
                      *longest));
  }
  if (model.decoder.has_value()) {
    f.positive("decoder layers", model.decoder->layers);
    f.positive("decoder mlp width", model.decoder->mlp_width);
    f.positive("decoder sequence", model.decoder->sequence);
    if (model.moe.has_value()) f.add("experts in an encoder-decoder are not described yet");
  }
  const bool rates = model.dropout >= 0.0 && model.dropout < 1.0 &&
                     model.attention_dropout >= 0.0 && model.attention_dropout < 1.0;
  if (!rates) f.add("dropout must be at least 0 and below 1");
  return f.take();
}

double optimizer_moments(OptimizerKind optimizer) {
  switch (optimizer) {
    case OptimizerKind::Adam:
      return 2.0;
    case OptimizerKind::Sgd:
    case OptimizerKind::Lion:
    case OptimizerKind::Muon:
      return 1.0;
    case OptimizerKind::Adafactor:
      return 0.0;
  }
  throw InternalError("optimizer without a number of moments");
}

std::optional<std::int64_t> longest_sequence(const ModelDescription& model) {
  if (model.attention.positions != PositionKind::Learned) return std::nullopt;
  if (model.vision.has_value()) return std::nullopt;  // the image decides
  return model.max_positions.value_or(model.embedding.position_rows);
}

std::vector<std::string> routing_faults(const Routing& routing) {
  std::vector<std::string> faults;
  if (routing.groups < 1 || routing.experts % std::max<std::int64_t>(routing.groups, 1) != 0) {
    faults.push_back(
        fmt::format("{} experts do not lie in {} equal groups", routing.experts, routing.groups));
  }
  if (routing.top_groups < 1 || routing.top_groups > routing.groups ||
      routing.top_k * routing.groups > routing.experts * routing.top_groups) {
    faults.push_back(
        fmt::format("top_k {} experts of the best {} of {} groups: there are not as many",
                    routing.top_k, routing.top_groups, routing.groups));
  }
  return faults;
}

}  // namespace plansearch
