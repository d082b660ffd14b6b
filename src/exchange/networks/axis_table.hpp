// SPDX-License-Identifier: Apache-2.0
// Identity of the dimensions of imported tensors: equal ones, and products of others. A reshape
// shows both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

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

}  // namespace plansearch::io
