// SPDX-License-Identifier: Apache-2.0
// The sections of a model file (plansearch/model/v1), one function each.
#pragma once

#include <filesystem>

#include "io/document/document.hpp"
#include "plansearch/model_description.hpp"

namespace plansearch::io {

// Wide enough for any network, small enough that products of sizes cannot overflow.
inline constexpr IntegerRange kLayerRange{1, 10'000};
inline constexpr IntegerRange kLayerCount{0, 10'000};
inline constexpr IntegerRange kSmallRange{0, 1'000};
inline constexpr IntegerRange kSizeRange{1, 10'000'000};
inline constexpr IntegerRange kZeroOrSize{0, 10'000'000};
inline constexpr IntegerRange kLengthRange{1, 100'000'000};
inline constexpr IntegerRange kZeroOrLength{0, 100'000'000};
inline constexpr IntegerRange kOffset{-1'000, 1'000};

inline constexpr Choice<StackKind> kStacks[] = {{"decoder", StackKind::Decoder},
                                                {"encoder", StackKind::Encoder},
                                                {"encoder-decoder", StackKind::EncoderDecoder},
                                                {"vision", StackKind::Vision}};
inline constexpr Choice<PositionKind> kPositions[] = {{"none", PositionKind::None},
                                                      {"learned", PositionKind::Learned},
                                                      {"rotary", PositionKind::Rotary},
                                                      {"alibi", PositionKind::Alibi},
                                                      {"relative", PositionKind::Relative}};
inline constexpr Choice<QkNorm> kQkNorms[] = {{"none", QkNorm::None},
                                              {"per-head", QkNorm::PerHead},
                                              {"full-width", QkNorm::FullWidth},
                                              {"each-head", QkNorm::EachHead},
                                              {"plain", QkNorm::Plain},
                                              {"key-weights", QkNorm::KeyWeights}};
inline constexpr Choice<OutputGate> kGates[] = {
    {"none", OutputGate::None}, {"per-head", OutputGate::PerHead}, {"full", OutputGate::Full}};
inline constexpr Choice<RecurrenceNorm> kMixerNorms[] = {{"none", RecurrenceNorm::None},
                                                         {"per-head", RecurrenceNorm::PerHead},
                                                         {"each-head", RecurrenceNorm::EachHead}};
inline constexpr Choice<NormKind> kNorms[] = {{"layernorm", NormKind::LayerNorm},
                                              {"layernorm-no-bias", NormKind::LayerNormNoBias},
                                              {"layernorm-plain", NormKind::LayerNormPlain},
                                              {"rmsnorm", NormKind::RmsNorm}};
inline constexpr Choice<OptimizerKind> kOptimizers[] = {{"adam", OptimizerKind::Adam},
                                                        {"sgd", OptimizerKind::Sgd},
                                                        {"lion", OptimizerKind::Lion},
                                                        {"adafactor", OptimizerKind::Adafactor},
                                                        {"muon", OptimizerKind::Muon}};

enum class BiasPlaces { None, Qkv, Output, All };

inline constexpr Choice<BiasPlaces> kBiases[] = {{"none", BiasPlaces::None},
                                                 {"qkv", BiasPlaces::Qkv},
                                                 {"output", BiasPlaces::Output},
                                                 {"all", BiasPlaces::All}};
inline constexpr Choice<WindowKind> kWindows[] = {{"sliding", WindowKind::Sliding},
                                                  {"chunked", WindowKind::Chunked}};
inline constexpr Choice<bool> kSpans[] = {{"full", true}, {"window", false}};
inline constexpr Choice<HeadTransform> kTransforms[] = {{"none", HeadTransform::None},
                                                        {"plain", HeadTransform::Plain},
                                                        {"bias", HeadTransform::Biased}};
inline constexpr Choice<Activation> kActivations[] = {{"gelu", Activation::Gelu},
                                                      {"relu", Activation::Relu},
                                                      {"silu", Activation::Silu},
                                                      {"squared-relu", Activation::SquaredRelu},
                                                      {"clamped-silu", Activation::ClampedSilu}};
inline constexpr Choice<NormPlacement> kPlacements[] = {
    {"pre", NormPlacement::Pre},           {"post", NormPlacement::Post},
    {"sandwich", NormPlacement::Sandwich}, {"after-branch", NormPlacement::AfterBranch},
    {"parallel", NormPlacement::Parallel}, {"parallel-two", NormPlacement::ParallelTwo}};

/// All sections of a model file. `families` holds the rows of recurrences.
[[nodiscard]] ModelDescription read_sections(const Node& root,
                                             const std::filesystem::path& families = {});
/// The attention of a model, or with a base what a part changes of it.
[[nodiscard]] AttentionDescription read_attention(const Node& node, std::int64_t hidden,
                                                  const AttentionDescription* base = nullptr);
[[nodiscard]] MlpDescription read_mlp(const Node& node, std::int64_t hidden,
                                      const MlpDescription* base = nullptr);
/// The parts of layers and which layer has which.
[[nodiscard]] LayerList read_layer_list(const Node& root, const ModelDescription& model,
                                        const std::filesystem::path& families);
/// The row of a kind of recurrence; InputError at `name` where there is none.
[[nodiscard]] RecurrenceForm read_form(const Node& name, const std::filesystem::path& families);
[[nodiscard]] LatentAttention read_latent(const Node& node);
/// The tower of a `vision_config` in front of a decoder with so many features, by the family of its
/// `model_type` (models/families/towers); nothing where no file describes it. Keys that no rule knows
/// are added to `unknown`.
[[nodiscard]] std::optional<TowerDescription> read_tower(const Node& config, std::int64_t hidden,
                                                         const std::filesystem::path& families,
                                                         std::vector<std::string>& unknown);
/// Reads a number above 0, at most 1.
[[nodiscard]] double read_predicted(const Node& node);
/// Reads training defaults, without seq_len for networks that fix it (images and graphs).
[[nodiscard]] TrainingDefaults read_training(const Node& node, StackKind stack);

}  // namespace plansearch::io
