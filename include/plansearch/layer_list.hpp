// SPDX-License-Identifier: Apache-2.0
// Networks whose layers differ one by one: the parts that layers are made of, by name, and which
// layer has which. Attention and MLPs of other sizes are overlays on the sections of the model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plansearch {

/// The sizes that products of a recurrent mixer make.
enum class MixerSize {
  Heads,      ///< of values
  KeyHeads,   ///< of queries and keys: groups that several heads of values share
  KeySize,    ///< features of a query and key head, rows of the state
  ValueSize,  ///< features of a value head, columns of the state
  Rank,       ///< of low-rank products
};

/// A tensor that a recurrence, its convolution or its gate reads.
struct MixerPart {
  std::string name;             ///< query, key and value by these names, others at will
  std::vector<MixerSize> dims;  ///< without batch and tokens
  std::string from;             ///< another part that it is a product of; empty: the stream
  std::string times;            ///< another part that multiplies it before its convolution
  bool low_rank = false;        ///< a product down to the rank, and one up from it
  bool convolved = false;       ///< with the tokens in front of it
  bool normed = false;          ///< by an RMS norm with a weight
  bool bias = false;            ///< of its product, whatever the others have
  bool operator==(const MixerPart&) const = default;
};

/// A parameter of the recurrence itself.
struct MixerVector {
  std::string name;
  std::vector<MixerSize> dims;
  bool operator==(const MixerVector&) const = default;
};

/// A row of models/families/_recurrences.yaml: what a kind of recurrence computes.
struct RecurrenceForm {
  std::string name;
  std::string kernel;  ///< of its update; empty: convolution and gate are all there is
  std::string gate;    ///< the part that multiplies its result; empty: none
  std::vector<MixerPart> parts;
  std::vector<MixerVector> vectors;
  bool one_product = true;  ///< the parts out of the stream are one product
  double flops = 4.0;       ///< of a point of the state and a token
  double transition = 0.0;  ///< rows of what a slice hands on besides the state, over its columns
  bool keeps_convolved = true;  ///< for backward; else the convolution runs again
  std::int64_t chunk = 0;       ///< columns of a matrix per token and head that is kept; 0: none
  bool operator==(const RecurrenceForm&) const = default;
};

/// Norm of what a recurrence returns, before its output product.
enum class RecurrenceNorm {
  None,
  PerHead,   ///< one weight of a head's size, shared by the heads
  EachHead,  ///< a weight for every head
};

/// A mixer that keeps a state in place of keys and values.
struct RecurrenceDescription {
  RecurrenceForm form;
  std::int64_t heads = 0;
  std::int64_t key_heads = 0;
  std::int64_t key_size = 0;
  std::int64_t value_size = 0;
  std::int64_t rank = 0;  ///< where the form has low-rank products
  std::int64_t taps = 0;  ///< of the convolution; 0: none
  bool bias = false;      ///< of its products
  bool convolution_bias = false;
  RecurrenceNorm norm = RecurrenceNorm::None;
  bool operator==(const RecurrenceDescription&) const = default;
};

/// Words that need no part: the sections `attention`, `mlp` and `experts`, and nothing at all.
inline constexpr const char* kAttentionWord = "attention";
inline constexpr const char* kMlpWord = "mlp";
inline constexpr const char* kExpertsWord = "experts";
inline constexpr const char* kNoneWord = "none";

}  // namespace plansearch
