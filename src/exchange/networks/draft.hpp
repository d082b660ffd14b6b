// SPDX-License-Identifier: Apache-2.0
// An imported network between its source and a graph file: operators of ours, on tensors whose
// dimensions are atoms that later operators may still join and split.
// Identity of the dimensions of imported tensors: equal ones, and products of others. A reshape
// shows both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exchange/networks/imported_graph.hpp"
#include "plansearch/network.hpp"
#include "workload/operator_traits.hpp"

namespace plansearch::io {

using AtomId = std::size_t;
/// One dimension of a tensor as a product of atoms, the slowest first; none: extent 1.
using ImportedAxis = std::vector<AtomId>;
using ImportedAxes = std::vector<ImportedAxis>;

/// Atoms: pieces of dimensions that nothing divides. They are split when a reshape divides them,
/// and joined when an operator walks along two of them at once.
class AxisTable {
 public:
  AtomId make(std::int64_t extent);
  /// An axis of its own, without atoms where it has one place.
  ImportedAxis make_axis(std::int64_t extent);
  /// The batch: kept apart where its extent is 1 too.
  AtomId make_batch(std::int64_t extent);

  /// The atoms that an axis consists of now.
  [[nodiscard]] ImportedAxis leaves(const ImportedAxis& axis) const;
  [[nodiscard]] std::int64_t extent(AtomId atom) const { return atoms_[find(atom)].extent; }
  [[nodiscard]] std::int64_t extent(const ImportedAxis& axis) const;
  [[nodiscard]] std::optional<AtomId> batch() const { return batch_; }
  [[nodiscard]] bool is_batch(AtomId atom) const;

  /// One after the other they are walked together: joined, atom by atom, split where one is a part
  /// of another. False (and nothing is done) where their parts do not fit.
  bool unify(const ImportedAxis& a, const ImportedAxis& b);
  /// The axes of a tensor of this shape that holds the same elements in the same order; nothing
  /// where they cannot be told.
  [[nodiscard]] std::optional<ImportedAxes> reshaped(const ImportedAxes& axes,
                                                     const std::vector<std::int64_t>& shape);
  /// Atoms like those of an axis that are never joined with them, such as keys next to queries.
  ImportedAxis twin(const ImportedAxis& axis);

  /// Marks that stay with an atom and what it is joined with or split into.
  void mark_place(const ImportedAxis& axis);
  [[nodiscard]] bool is_place(AtomId atom) const { return atoms_[find(atom)].place; }
  void mark_token(const ImportedAxis& axis);
  [[nodiscard]] bool is_token(AtomId atom) const { return atoms_[find(atom)].token; }

 private:
  struct Atom {
    std::int64_t extent = 1;
    std::optional<AtomId> same;  ///< joined into this one
    ImportedAxis parts;          ///< split into these
    std::vector<AtomId> apart;   ///< never joined with these; split as they are
    bool place = false;          ///< of an image
    bool token = false;          ///< of a sequence
  };

  [[nodiscard]] AtomId find(AtomId atom) const;
  void split(AtomId atom, std::int64_t first);
  void join(AtomId a, AtomId b);
  [[nodiscard]] bool are_apart(AtomId a, AtomId b) const;
  /// Whether both can be traversed together after splitting the longer atoms.
  [[nodiscard]] bool fits(const ImportedAxis& a, const ImportedAxis& b) const;
  [[nodiscard]] ImportedAxis without_batch(const ImportedAxis& axis) const;

  mutable std::vector<Atom> atoms_;  ///< a union-find forest: paths to the first are compressed
  std::optional<AtomId> batch_;
};

using DraftId = std::size_t;  ///< of a tensor or an operator, by place

struct DraftTensor {
  std::string name;
  ImportedAxis dims;
  ElementClass element = ElementClass::Activation;
  bool gradient = true;
  std::optional<DraftId> made_by;  ///< operator; nothing: it comes from outside the network
  double visible = 1.0;            ///< share of scores that a mask leaves
};

/// (sum of terms + offset) / divisor, of loop dimensions with one atom each.
struct DraftIndex {
  AtomId dim{};  ///< of the tensor
  std::vector<std::pair<ImportedAxis, std::int64_t>> terms;
  std::int64_t offset = 0;
  std::int64_t divisor = 1;
};

struct DraftRead {
  DraftId tensor = 0;
  /// Axes of the tensor and those of the loop nest that walk along them; all others: its own.
  std::vector<std::pair<ImportedAxis, ImportedAxis>> renamed;
  std::vector<DraftIndex> windows;
};

struct DraftParameter {
  ImportedId value = 0;
  ImportedAxis dims;
  std::optional<std::size_t> piece;  ///< of one that is cut into several
};

/// The tensors that an element-wise operator keeps for backward.
enum class Keeps : std::uint8_t { Usual, Nothing, Inputs, Outputs, Both };

struct DraftOperator {
  std::string name;
  std::string module;
  const OperatorTraits* row = nullptr;  ///< of its kind
  MemoryBound passes = MemoryBound::Plain;
  std::vector<DraftRead> reads;
  std::vector<DraftParameter> parameters;  ///< the weight of a product first
  std::vector<DraftId> made;
  std::optional<ImportedAxis> loop;
  /// The axis that the operands of a product share, or that a norm, softmax or loss runs over.
  ImportedAxis contracted;
  ImportedAxis heads;     ///< of a product of activations: what every product is for itself in
  ImportedAxis rows;      ///< ... of the first operand alone
  ImportedAxis columns;   ///< ... of the second operand alone
  ImportedAxis features;  ///< of the values of fused attention
  LayerModules modules;
  Keeps keeps = Keeps::Usual;
  double flops_per_point = 0.0;
  double useful_fraction = 1.0;
  double backward_factor = 2.0;
  std::optional<std::size_t> fused;  ///< operators of one number run as one kernel
  bool launches = true;              ///< not the first of them
  int forward_kernels = 1;
  int backward_kernels = 0;  ///< 0: as usual for its kind
};

/// The form of a value of the source here.
struct DraftValue {
  enum class Is : std::uint8_t { Unknown, Tensor, Parameter, Plain } is = Is::Unknown;
  DraftId tensor = 0;
  ImportedId parameter = 0;
  ImportedAxes axes;
  /// For plain numbers: the axis, counted from the last one, along which they count up. `visible`
  /// is the share of places that a triangular mask leaves.
  std::optional<std::size_t> counts_along;
  double visible = 1.0;
};

struct Draft {
  AxisTable axes;
  std::vector<DraftTensor> tensors;
  std::vector<DraftOperator> operators;
  std::vector<DraftId> inputs;   ///< tensors that come from outside
  std::vector<DraftId> results;  ///< tensors that leave the network
};

}  // namespace plansearch::io
