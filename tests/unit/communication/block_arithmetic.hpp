// SPDX-License-Identifier: Apache-2.0
// What operators compute on a box of their loop nest, element by element.
#pragma once

#include <compare>
#include <string>
#include <utility>
#include <vector>

#include "execution.hpp"

namespace plansearch::test {

struct Key {
  Subject subject = Subject::Activation;
  std::uint32_t index = 0;
  auto operator<=>(const Key&) const = default;
};

class BlockArithmetic {
 public:
  explicit BlockArithmetic(const PlacedBlockCase& placed) : c_(placed) {}

  [[nodiscard]] const Block& block() const { return c_.network.blocks[0]; }
  [[nodiscard]] const std::vector<DimId>& dims(Key key) const {
    return is_parameter(key) ? block().parameters[key.index].dims : block().tensors[key.index].dims;
  }
  static bool is_parameter(Key key) {
    return key.subject == Subject::Parameter || key.subject == Subject::Gradient;
  }
  [[nodiscard]] std::size_t extent(DimId dim) const {
    return static_cast<std::size_t>(c_.rules.extents[static_cast<std::size_t>(dim)]);
  }
  [[nodiscard]] std::size_t size(Key key) const {
    std::size_t product = 1;
    for (const DimId dim : dims(key)) product *= extent(dim);
    return product;
  }
  static Key activation(TensorId id) {
    return {Subject::Activation, static_cast<std::uint32_t>(id)};
  }
  static Key gradient(TensorId id) {
    return {Subject::ActivationGradient, static_cast<std::uint32_t>(id)};
  }
  static Key weight(ParameterId id) { return {Subject::Parameter, static_cast<std::uint32_t>(id)}; }
  static Key weight_gradient(ParameterId id) {
    return {Subject::Gradient, static_cast<std::uint32_t>(id)};
  }
  [[nodiscard]] std::string name(Key key) const {
    const bool of = key.subject == Subject::ActivationGradient || key.subject == Subject::Gradient;
    return (of ? "gradient of " : "") + (is_parameter(key) ? block().parameters[key.index].name
                                                           : block().tensors[key.index].name);
  }

  using Box = std::vector<std::pair<std::size_t, std::size_t>>;

  /// The element of a tensor or parameter at a point of the loop nest.
  [[nodiscard]] std::size_t element(std::size_t op, Key key,
                                    const std::vector<std::size_t>& at) const {
    std::size_t e = 0;
    const auto step = [&](std::int8_t position, DimId dim) {
      std::size_t x = at[static_cast<std::size_t>(position)];
      const DimId loop = block().operators[op].loop[static_cast<std::size_t>(position)];
      if (extent(loop) != extent(dim)) x = x * extent(dim) / extent(loop);  // grouped heads
      e = e * extent(dim) + x;
    };
    const OperatorIndex& index = c_.index.operators[op];
    const auto visit = [&](const auto& positions) {
      for (std::size_t i = 0; i < dims(key).size(); ++i) step(positions[i], dims(key)[i]);
    };
    if (is_parameter(key)) {
      visit(index.use(static_cast<ParameterId>(key.index)).positions);
    } else {
      visit(index.use(static_cast<TensorId>(key.index)).positions);
    }
    return e;
  }

  /// A linear operator multiplies its input by its parameter; attention is taken without softmax,
  /// O = (Q K^T) V, so that sums over key slices are sums.
  template <typename Read, typename Write>
  void multiply(std::size_t i, OperatorPhase phase, const Box& box, Read read, Write write) const {
    const Operator& op = block().operators[i];
    if (op.kind == OperatorKind::Attention) {
      if (phase != OperatorPhase::WeightGradient) attend(i, phase, box, read, write);
      return;
    }
    const Key x = activation(op.inputs[0]);
    const Key y = activation(op.outputs[0]);
    const Key w = weight(op.parameters[0]);
    const Key dx = gradient(op.inputs[0]);
    const Key dy = gradient(op.outputs[0]);
    const Key dw = weight_gradient(op.parameters[0]);
    for_each_point(box, [&](const std::vector<std::size_t>& at) {
      const auto e = [&](Key key) { return element(i, key, at); };
      if (phase == OperatorPhase::Forward) write(y, e(y), read(x, e(x)) * read(w, e(w)));
      if (phase == OperatorPhase::InputGradient) write(dx, e(dx), read(dy, e(dy)) * read(w, e(w)));
      if (phase == OperatorPhase::WeightGradient) write(dw, e(dw), read(x, e(x)) * read(dy, e(dy)));
    });
  }

  /// Loop nest: batch, queries, keys, heads, features. Features of scores are summed by an inner
  /// loop, so they are never cut.
  template <typename Read, typename Write>
  void attend(std::size_t i, OperatorPhase phase, const Box& box, Read read, Write write) const {
    const Operator& op = block().operators[i];
    const Key q = activation(op.inputs[0]), k = activation(op.inputs[1]),
              v = activation(op.inputs[2]);
    const Key o = activation(op.outputs[0]), go = gradient(op.outputs[0]);
    const Key gq = gradient(op.inputs[0]), gk = gradient(op.inputs[1]), gv = gradient(op.inputs[2]);
    const std::size_t feature = op.loop.size() - 1;
    Box rows = box;
    rows[feature] = {0, 1};
    for_each_point(rows, [&](std::vector<std::size_t> at) {
      const auto sum = [&](Key a, Key b) {
        long total = 0;
        for (std::size_t f = 0; f < extent(op.loop[feature]); ++f) {
          at[feature] = f;
          total += read(a, element(i, a, at)) * read(b, element(i, b, at));
        }
        return total;
      };
      const auto spread = [&](Key to, Key from, long factor) {
        for (std::size_t f = 0; f < extent(op.loop[feature]); ++f) {
          at[feature] = f;
          write(to, element(i, to, at), factor * read(from, element(i, from, at)));
        }
      };
      const long score = sum(q, k);
      if (phase == OperatorPhase::Forward) return spread(o, v, score);
      const long gradient_of_score = sum(go, v);
      spread(gv, go, score);
      spread(gq, k, gradient_of_score);
      spread(gk, q, gradient_of_score);
    });
  }

  template <typename Visit>
  static void for_each_point(const Box& box, Visit visit) {
    std::vector<std::size_t> at;
    for (const auto& [first, last] : box) {
      if (first == last) return;
      at.push_back(first);
    }
    while (true) {
      visit(at);
      std::size_t i = box.size();
      while (i > 0 && ++at[i - 1] == box[i - 1].second) {
        at[i - 1] = box[i - 1].first;
        --i;
      }
      if (i == 0) return;
    }
  }

 private:
  const PlacedBlockCase& c_;
};

}  // namespace plansearch::test
