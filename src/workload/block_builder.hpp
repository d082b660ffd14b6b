// SPDX-License-Identifier: Apache-2.0
// Writes one block of a network: keeps the ids, the saved tensors and the loop nests consistent.
#pragma once

#include <string>
#include <vector>

#include "plansearch/network.hpp"

namespace plansearch {

using Dims = std::vector<DimId>;

[[nodiscard]] Dims concat(Dims a, const Dims& b);
[[nodiscard]] Dims without(const Dims& dims, const Dims& removed);

/// The dimension of that name; made at the first call, and the same at every later one.
DimId dimension(Network& network, const std::string& name, DimRole role, std::int64_t extent);

enum class Bias { No, Yes };

/// input (..., contracted) times a weight (contracted, outputs).
struct Linear {
  std::string name{};
  TensorId input{};
  Dims contracted{};
  Dims outputs{};
  Bias bias = Bias::No;
  std::string fused_key{};
  int products = 1;
  OperatorKind kind = OperatorKind::Matmul;
  Dims per_item{};  ///< dimensions of the input that the weight has too (experts)
  double useful_fraction = 1.0;
  ElementClass element = ElementClass::Activation;
  std::string shared_key{};
  ParameterClass parameter = ParameterClass::Matrix;
};

class BlockBuilder {
 public:
  BlockBuilder(Network& network, std::string name, BlockKind kind);

  DimId dim(const std::string& name, DimRole role, std::int64_t extent) {
    return dimension(network_, name, role, extent);
  }
  [[nodiscard]] std::int64_t extent(DimId id) const { return network_.dimension(id).extent; }
  [[nodiscard]] const std::string& name_of(DimId id) const { return network_.dimension(id).name; }
  [[nodiscard]] const Dims& dims(TensorId id) const { return block_.tensor(id).dims; }

  TensorId tensor(std::string name, Dims dims, ElementClass element = ElementClass::Activation);
  TensorId input(std::string name, Dims dims, ElementClass element = ElementClass::Activation);
  ParameterId parameter(std::string name, Dims dims, ParameterClass kind,
                        std::string shared_key = {});
  void freeze(ParameterId id) {
    block_.parameters[static_cast<std::size_t>(id)].trainable = Trainable::No;
  }
  /// Operators that are added while the guard lives are part of the module, besides those around.
  class Part {
   public:
    Part(LayerModules& modules, LayerModule module) : modules_(modules), before_(modules) {
      modules |= bit_of(module);
    }
    ~Part() { modules_ = before_; }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    LayerModules& modules_;
    LayerModules before_;
  };
  [[nodiscard]] Part part(LayerModule module) { return {modules_, module}; }

  /// The reference is valid until the next operator is added.
  Operator& add(Operator op);
  /// Lists the tensor as saved by the operator that produced it; block inputs are kept anyway.
  void save_at_producer(const Saved& saved);

  /// Lists a block input as saved by the operator added last.
  void save_input(TensorId id) { block_.operators.back().saved.push_back(id); }

  /// The operator added last keeps an fp32 copy of its input and an intermediate like its output.
  void keep_copies(TensorId in, TensorId out);

  TensorId linear(const Linear& spec);
  /// Normalises over `normalised`; `weights` are the dimensions of its weight; empty: it has none.
  TensorId norm(const std::string& name, TensorId in, const Dims& weights, const Dims& normalised,
                bool layer_norm, bool bias);
  /// One launch that reads inputs and writes one tensor of dims.
  TensorId elementwise(const std::string& name, std::vector<TensorId> inputs, Dims dims);

  /// Adds the block to the network and returns its index.
  std::size_t finish(std::vector<TensorId> outputs);

 private:
  Network& network_;
  Block block_;
  LayerModules modules_;  ///< of what is added
};

}  // namespace plansearch
