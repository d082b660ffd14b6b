// SPDX-License-Identifier: Apache-2.0
#include "io/model/graph/graph_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/ranges.hpp"

namespace plansearch::io {
namespace {

void add_missing(std::vector<DimId>& loop, DimId dim) {
  if (!contains(loop, dim)) loop.push_back(dim);
}

/// Dimensions of the loop nest by which an operator reads its operands; those of the first operand
/// only, if it reads the others by rules of its kind.
std::vector<DimId> read_dims(const Block& block, const Operator& op) {
  std::vector<DimId> dims;
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (i < op.reads.size() && !op.reads[i].empty()) {
      for (const IndexExpression& index : op.reads[i]) {
        for (const IndexTerm& term : index.terms) add_missing(dims, term.dim);
      }
    } else if (i == 0 || !traits(op).multiplies_activations()) {
      for (const DimId dim : block.tensor(op.inputs[i]).dims) add_missing(dims, dim);
    }
  }
  return dims;
}

constexpr std::int64_t kLargest = 1'000'000'000;
constexpr std::size_t kMostTerms = 16;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Reads one index from left to right.
class IndexParser : TextCursor {
 public:
  explicit IndexParser(std::string_view text) : TextCursor(trimmed(text)) {}

  std::variant<IndexText, TextProblem> run() {
    IndexText index;
    const bool bracketed = take('(');
    if (!sum(index) || (bracketed && !take(')'))) return problem();
    if (take('/')) {
      const auto divisor = number();
      if (!divisor || *divisor < 1) return problem();
      index.divisor = *divisor;
    }
    skip();
    if (at_ < text_.size()) return problem();
    return index;
  }

 private:
  [[nodiscard]] TextProblem problem() const {
    return {
        fmt::format("'{}' is not an index: write a dimension, or a sum such as 2*v+p-1, divided "
                    "by a whole number where it is upsampled, (v+p-1)/2",
                    text_)};
  }

  std::optional<std::int64_t> number() {
    skip();
    std::int64_t value = 0;
    const char* begin = text_.data() + at_;
    const char* end = text_.data() + text_.size();
    if (begin == end || !is_digit(*begin)) return std::nullopt;
    const auto [stop, error] = std::from_chars(begin, end, value);
    if (error != std::errc() || value > kLargest) return std::nullopt;
    at_ += static_cast<std::size_t>(stop - begin);
    return value;
  }

  std::optional<std::string> name() {
    skip();
    if (at_ >= text_.size() || !is_letter(text_[at_])) return std::nullopt;
    return std::string(take_word());
  }

  bool sum(IndexText& index) {
    bool negative = take('-');
    if (!negative) take('+');
    while (true) {
      if (index.terms.size() > kMostTerms || !term(index, negative ? -1 : 1)) return false;
      if (take('+')) {
        negative = false;
      } else if (take('-')) {
        negative = true;
      } else {
        return !index.terms.empty();
      }
    }
  }

  /// 3, v, 2v, 2*v or v*2.
  bool term(IndexText& index, std::int64_t sign) {
    const auto before = number();
    if (before) take('*');
    const auto dim = name();
    if (!dim) {
      if (!before) return false;
      index.offset += sign * *before;
      return true;
    }
    std::int64_t factor = before.value_or(1);
    if (!before && take('*')) {
      const auto behind = number();
      if (!behind) return false;
      factor = *behind;
    }
    if (factor == 0) return false;
    index.terms.push_back({*dim, sign * factor});
    return true;
  }
};

}  // namespace

std::vector<DimId> usual_loop(const Block& block, const Operator& op) {
  const std::vector<DimId> none;
  const auto& out = op.outputs.empty() ? none : block.tensor(op.outputs.front()).dims;
  const bool weighs = traits(op).is_product() && !op.parameters.empty();
  const auto& weight = weighs ? block.parameter(op.parameters.front()).dims : none;
  std::vector<DimId> loop;
  for (const DimId dim : out) {
    if (!contains(weight, dim)) add_missing(loop, dim);
  }
  for (const DimId dim : read_dims(block, op)) {
    if (!contains(out, dim)) add_missing(loop, dim);
  }
  for (const DimId dim : weight) {
    if (!contains(out, dim)) add_missing(loop, dim);
  }
  for (const DimId dim : out) add_missing(loop, dim);
  for (const ParameterId id : op.parameters) {
    for (const DimId dim : block.parameter(id).dims) add_missing(loop, dim);
  }
  return loop;
}

std::vector<Saved> usual_saved(const Block& block, const Operator& op) {
  const OperatorTraits& row = traits(op);
  std::vector<Saved> saved;
  const auto add = [&](const std::vector<TensorId>& tensors) {
    for (const TensorId id : tensors) {
      if (!contains(saved, Saved(id))) saved.emplace_back(id);
    }
  };
  const bool by_function = row.backward_reads == BackwardReads::ByFunction;
  // The inputs of a sum are not read again.
  const bool sum = op.passes == MemoryBound::Residual || op.passes == MemoryBound::DropoutResidual;
  if (row.reads_inputs() || (by_function && !sum)) add(op.inputs);
  if (row.reads_outputs()) add(op.outputs);
  for (const TensorId id : op.outputs) {
    const ElementClass element = block.tensor(id).element;
    if (element == ElementClass::Mask || element == ElementClass::Statistic) add({id});
  }
  return saved;
}

double usual_flops(OperatorKind kind) {
  return traits(kind).model_flops ? 2.0 : 0.0;
}

int usual_backward_kernels(OperatorKind kind) {
  const OperatorTraits& row = traits(kind);
  return row.is_product() || row.reads_inputs() ? 2 : 1;
}

ParameterClass usual_class(OperatorKind kind) {
  const OperatorTraits& row = traits(kind);
  if (row.multiplies_weight()) return ParameterClass::Matrix;
  return row.cost == CostClass::LookUp ? ParameterClass::Embedding : ParameterClass::Vector;
}

std::string parameter_name(const Operator& op, std::string_view part) {
  return op.name + "." + std::string(part);
}

std::variant<TensorText, TextProblem> parse_tensor(std::string_view text) {
  TensorText tensor;
  std::string_view head = text;
  const std::size_t close = text.rfind(']');
  const std::size_t colon = text.find(':', close == std::string_view::npos ? 0 : close);
  if (colon != std::string_view::npos) {
    head = text.substr(0, colon);
    std::string_view rest = trimmed(text.substr(colon + 1));
    while (!rest.empty()) {
      const std::size_t space = std::min(rest.find(' '), rest.size());
      tensor.words.emplace_back(rest.substr(0, space));
      rest = trimmed(rest.substr(space));
    }
  }
  head = trimmed(head);
  const std::size_t open = head.find('[');
  tensor.name = trimmed(head.substr(0, open));
  if (tensor.name.empty()) return TextProblem{fmt::format("'{}' names no tensor", text)};
  if (open == std::string_view::npos) return tensor;
  if (head.back() != ']') return TextProblem{fmt::format("'{}' has no closing bracket", text)};
  tensor.indexed = true;
  std::string_view list = head.substr(open + 1, head.size() - open - 2);
  while (!trimmed(list).empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    auto index = IndexParser(list.substr(0, comma)).run();
    if (auto* problem = std::get_if<TextProblem>(&index)) return std::move(*problem);
    tensor.indices.push_back(std::get<IndexText>(std::move(index)));
    list = comma < list.size() ? list.substr(comma + 1) : std::string_view();
  }
  return tensor;
}

std::string to_text(const IndexText& index) {
  std::string sum;
  for (const IndexText::Term& term : index.terms) {
    if (term.factor < 0) {
      sum += '-';
    } else if (!sum.empty()) {
      sum += '+';
    }
    const std::int64_t times = term.factor < 0 ? -term.factor : term.factor;
    if (times != 1) sum += fmt::format("{}*", times);
    sum += term.dim;
  }
  if (index.offset != 0) sum += fmt::format("{:+}", index.offset);
  return index.divisor == 1 ? sum : fmt::format("({})/{}", sum, index.divisor);
}

}  // namespace plansearch::io
