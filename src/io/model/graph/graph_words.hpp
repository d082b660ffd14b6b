// SPDX-License-Identifier: Apache-2.0
// The words of graph files, and what an operator of a kind is where a file does not say.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "io/document/document.hpp"
#include "plansearch/network.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::io {

// Characters of names in formulas and indices.
[[nodiscard]] constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
[[nodiscard]] constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/// Reads a formula or an index from left to right.
class TextCursor {
 protected:
  explicit TextCursor(std::string_view text) : text_(text) {}

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  /// Takes the character behind spaces, where it is that one.
  bool take(char c) {
    skip();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  /// Letters and digits behind spaces.
  std::string_view take_word() {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

inline constexpr std::string_view kGraphSchema = "plansearch/graph/v1";

inline constexpr Choice<DimRole> kRoles[] = {
    {"other", DimRole::Other},       {"batch", DimRole::Batch},
    {"sequence", DimRole::Sequence}, {"key-sequence", DimRole::KeySequence},
    {"hidden", DimRole::Hidden},     {"head", DimRole::Head},
    {"kv-head", DimRole::KvHead},    {"head-size", DimRole::HeadSize},
    {"ffn", DimRole::Ffn},           {"vocab", DimRole::Vocab},
    {"expert", DimRole::Expert},     {"expert-choice", DimRole::ExpertChoice},
    {"routed", DimRole::Routed},     {"expert-ffn", DimRole::ExpertFfn},
    {"latent", DimRole::Latent},     {"position", DimRole::Position},
    {"pixel", DimRole::Pixel},       {"channel", DimRole::Channel},
    {"kernel", DimRole::Kernel}};
/// Words of the operator kinds, from their table.
[[nodiscard]] inline const std::array<Choice<OperatorKind>, kOperatorKindCount>& kind_words() {
  static const auto kWords = [] {
    std::array<Choice<OperatorKind>, kOperatorKindCount> words{};
    for (const OperatorTraits& row : kOperatorTraits) {
      words[static_cast<std::size_t>(row.kind)] = {row.word, row.kind};
    }
    return words;
  }();
  return kWords;
}
inline constexpr Choice<ElementClass> kElements[] = {{"activation", ElementClass::Activation},
                                                     {"statistic", ElementClass::Statistic},
                                                     {"mask", ElementClass::Mask},
                                                     {"index", ElementClass::Index},
                                                     {"logit", ElementClass::Logit}};
inline constexpr std::string_view kNoGradient = "no-gradient";
inline constexpr Choice<BlockKind> kBlockKinds[] = {
    {"layer", BlockKind::Layer},     {"embedding", BlockKind::Embedding},
    {"encoder", BlockKind::Encoder}, {"decoder", BlockKind::Decoder},
    {"head", BlockKind::Head},       {"cross-decoder", BlockKind::CrossDecoder},
    {"other", BlockKind::Other}};
inline constexpr Choice<ParameterClass> kParameterClasses[] = {
    {"matrix", ParameterClass::Matrix},
    {"vector", ParameterClass::Vector},
    {"embedding", ParameterClass::Embedding}};
inline constexpr Choice<SavedAs> kSavedForms[] = {
    {"itself", SavedAs::Itself}, {"single", SavedAs::Single}, {"like", SavedAs::Like}};

/// The loop nest where a file leaves it out: rows of the result, what is contracted (all that is
/// read and not made), columns.
[[nodiscard]] std::vector<DimId> usual_loop(const Block& block, const Operator& op);
/// Tensors kept for backward where a file lists none: those that the kind reads there, or all
/// inputs if this depends on the function.
[[nodiscard]] std::vector<Saved> usual_saved(const Block& block, const Operator& op);
[[nodiscard]] double usual_flops(OperatorKind kind);
[[nodiscard]] int usual_backward_kernels(OperatorKind kind);
[[nodiscard]] ParameterClass usual_class(OperatorKind kind);
/// Name of a parameter that the file names by its part: "weight" of "query" is "query.weight".
[[nodiscard]] std::string parameter_name(const Operator& op, std::string_view part);

// How graph files write tensors: "h[b, 2v+p-1, (x+q)/2, c]: mask".

/// An index as it is written: (sum of dimensions, each so many times, and a number) / divisor.
struct IndexText {
  struct Term {
    std::string dim;
    std::int64_t factor = 1;
  };
  std::vector<Term> terms;
  std::int64_t offset = 0;
  std::int64_t divisor = 1;
  /// One dimension by itself.
  [[nodiscard]] bool is_plain() const {
    return terms.size() == 1 && terms.front().factor == 1 && offset == 0 && divisor == 1;
  }
};

struct TensorText {
  std::string name;
  bool indexed = false;  ///< brackets follow
  std::vector<IndexText> indices;
  std::vector<std::string> words;  ///< behind the colon
};

/// A fault of a text.
struct TextProblem {
  std::string what;
};
[[nodiscard]] std::variant<TensorText, TextProblem> parse_tensor(std::string_view text);

[[nodiscard]] std::string to_text(const IndexText& index);

}  // namespace plansearch::io
