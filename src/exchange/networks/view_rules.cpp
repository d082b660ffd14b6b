// SPDX-License-Identifier: Apache-2.0
// Views cost nothing and carry dimensions through; what they cannot carry is copied.

#include <algorithm>

#include "base/ranges.hpp"
#include "exchange/networks/lowering.hpp"

namespace plansearch::io {
namespace {

/// Makes `id` a view of `of` under other axes; plain numbers keep the axis along which they count.
void view(Lowering& l, ImportedId id, ImportedId of, const ImportedAxes& axes) {
  const DraftValue source = l.at(of);
  l.set_view(id, of, axes);
  if (source.is != DraftValue::Is::Plain) return;
  std::optional<std::size_t> counts;
  if (source.counts_along) {
    const ImportedAxis& counted = source.axes[source.axes.size() - 1 - *source.counts_along];
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (l.axes().leaves(axes[axes.size() - 1 - i]) == l.axes().leaves(counted)) counts = i;
    }
  }
  l.set_plain(id, axes, source.visible, counts);
}

bool has_places(Lowering& l, const ImportedAxis& axis) {
  const ImportedAxis atoms = l.axes().leaves(axis);
  return std::ranges::any_of(atoms, [&](AtomId a) { return l.axes().is_place(a); });
}

/// Whether an axis repeats something that the tensor has only once.
bool repeats(Lowering& l, ImportedId id, const ImportedAxis& axis) {
  const ImportedAxis dims = l.axes().leaves(l.draft().tensors[l.at(id).tensor].dims);
  const ImportedAxis atoms = l.axes().leaves(axis);
  return atoms.size() > 1 &&
         std::ranges::any_of(atoms, [&](AtomId atom) { return !contains(dims, atom); });
}

/// Copies a value that repeats inside another dimension, each place several times (d / g).
bool write_repeated(Lowering& l, const ImportedNode& node, ImportedId from, ImportedAxes axes) {
  bool any = false;
  DraftOperator op = l.start(node, "elementwise", from);
  op.keeps = Keeps::Nothing;
  for (ImportedAxis& axis : axes) {
    if (!repeats(l, from, axis)) continue;
    any = true;
    const ImportedAxis atoms = l.axes().leaves(axis);
    axis = l.axes().make_axis(l.axes().extent(axis));
    const bool inner = atoms.size() == 2 && !repeats(l, from, {atoms[0], atoms[0]});
    if (inner)
      op.reads.front().windows.push_back({atoms[0], {{axis, 1}}, 0, l.axes().extent(atoms[1])});
  }
  if (!any) return false;
  l.add_result(node, std::move(op), axes);
  return true;
}

/// Rows and columns of an image that become tokens: they are laid out anew, t = width * y + x.
bool makes_tokens(Lowering& l, const ImportedAxes& axes) {
  return std::ranges::any_of(axes, [&](const ImportedAxis& axis) {
    return l.axes().leaves(axis).size() > 1 && has_places(l, axis);
  });
}

/// The product whose result is cut along all of what it makes, where nothing else reads it.
DraftOperator* cut_product(Lowering& l, ImportedId from, const ImportedAxis& cut) {
  if (!l.is_tensor(from)) return nullptr;
  const DraftTensor& tensor = l.draft().tensors[l.at(from).tensor];
  if (!tensor.made_by || *tensor.made_by + 1 != l.draft().operators.size()) return nullptr;
  DraftOperator& op = l.draft().operators[*tensor.made_by];
  if (!op.row->multiplies_weight() || op.row->slides || op.fused) return nullptr;
  ImportedAxis columns;
  for (const AtomId atom : l.axes().leaves(op.parameters.front().dims)) {
    const ImportedAxis shared = l.axes().leaves(op.contracted);
    if (!contains(shared, atom)) columns.push_back(atom);
  }
  if (columns != l.axes().leaves(cut)) return nullptr;
  for (const ImportedId id : l.views(l.at(from).tensor)) {
    if (l.uses(id) != 1) return nullptr;
  }
  const auto shared = [&](const DraftParameter& p) { return l.uses(p.value) != 1; };
  if (std::ranges::any_of(op.parameters, shared)) return nullptr;
  return &op;
}

}  // namespace

ImportedId first_input(const Lowering& l, const ImportedNode& node) {
  const auto ids = Lowering::inputs(node);
  if (ids.empty()) l.fail(node, "it reads no tensor");
  return ids.front();
}

void lower_nothing(Lowering& l, const ImportedNode& node, const ImportedRow&) {
  for (const ImportedId id : node.outputs) l.set_plain(id, l.fresh(l.shape(id)));
}

void lower_alias(Lowering& l, const ImportedNode& node, const ImportedRow&) {
  const ImportedId from = first_input(l, node);
  for (const ImportedId id : node.outputs) {
    if (l.shape(id).size() != l.shape(from).size()) l.fail(node, "its result has other dimensions");
    view(l, id, from, l.at(from).axes);
  }
}

/// A copy where the elements do not lie row by row already.
void lower_contiguous(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId from = first_input(l, node);
  if (l.graph().values[from].contiguous || !l.is_tensor(from)) return lower_alias(l, node, row);
  DraftOperator op = l.start(node, "elementwise", from);
  op.keeps = Keeps::Nothing;
  const ImportedAxes axes = l.at(from).axes;
  l.add_result(node, std::move(op), axes);
}

void lower_reshape(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId from = first_input(l, node);
  const ImportedId to = node.outputs.front();
  const ImportedAxes before = l.at(from).axes;
  if (l.is_tensor(from)) {
    // Tokens that were places become places again.
    for (std::size_t i = 0; i < before.size(); ++i) {
      const ImportedAxis atoms = l.axes().leaves(before[i]);
      const bool tokens =
          !atoms.empty() && l.axes().is_place(atoms.back()) && l.axes().is_token(atoms.back());
      const ImportedShape& shape = l.shape(to);
      const bool kept = contains(shape, l.shape(from)[i]);
      if (tokens && !kept) return lower_copy(l, node, row);
    }
  }
  const auto axes = l.axes().reshaped(before, l.shape(to));
  if (!axes) return lower_copy(l, node, row);
  if (l.is_tensor(from) && makes_tokens(l, *axes)) {
    lower_copy(l, node, row);
    for (std::size_t i = 0; i < axes->size(); ++i) {
      const ImportedAxis& made = l.at(to).axes[i];
      const bool places = l.axes().leaves((*axes)[i]).size() > 1 && has_places(l, (*axes)[i]);
      if (!places) {
        l.axes().unify(made, (*axes)[i]);
        continue;
      }
      l.axes().mark_token(made);
      l.axes().mark_place(made);
    }
    return;
  }
  if (l.is_tensor(from) && write_repeated(l, node, from, *axes)) return;
  view(l, to, from, *axes);
}

void lower_transpose(Lowering& l, const ImportedNode& node, const ImportedRow&) {
  const ImportedId from = first_input(l, node);
  ImportedAxes axes = l.at(from).axes;
  if (axes.size() >= 2) {
    const std::size_t a = l.place(node, from, node.get<std::int64_t>("dim0", 0));
    const std::size_t b = l.place(node, from, node.get<std::int64_t>("dim1", 1));
    std::swap(axes[a], axes[b]);
  }
  view(l, node.outputs.front(), from, axes);
}

void lower_permute(Lowering& l, const ImportedNode& node, const ImportedRow&) {
  const ImportedId from = first_input(l, node);
  const ImportedAxes before = l.at(from).axes;
  ImportedAxes axes;
  for (const std::int64_t dim : node.numbers("dims"))
    axes.push_back(before[l.place(node, from, dim)]);
  if (axes.size() != before.size()) l.fail(node, "it does not permute all dimensions");
  view(l, node.outputs.front(), from, axes);
}

/// Repeats a dimension of one place at its readers; the tensor does not grow.
void lower_expand(Lowering& l, const ImportedNode& node, const ImportedRow&) {
  const ImportedId from = first_input(l, node);
  const ImportedId to = node.outputs.front();
  const ImportedAxes& own = l.at(from).axes;
  ImportedAxes axes = l.fresh(l.shape(to));
  for (std::size_t i = 0; i < own.size() && i < axes.size(); ++i) {
    ImportedAxis& axis = axes[axes.size() - 1 - i];
    const ImportedAxis& mine = own[own.size() - 1 - i];
    if (l.axes().extent(mine) == l.axes().extent(axis)) axis = mine;
  }
  view(l, to, from, axes);
}

void lower_copy(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId from = first_input(l, node);
  if (l.at(from).is == DraftValue::Is::Plain) return lower_nothing(l, node, row);
  for (const ImportedId id : node.outputs) {
    if (l.uses(id) > 0) l.copy(node, from, id);
  }
}

void lower_slice(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId from = first_input(l, node);
  if (l.shape(from) == l.shape(node.outputs.front())) return lower_alias(l, node, row);
  lower_copy(l, node, row);
}

/// Lowers a split. A product whose result is split becomes one product per piece, run as one
/// kernel; other values are copied piece by piece.
void lower_split(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  const ImportedId from = first_input(l, node);
  const std::size_t dim = l.place(node, from, node.get<std::int64_t>("dim", 0));
  const ImportedAxes whole = l.at(from).axes;
  for (const ImportedId id : node.outputs) {
    if (l.shape(id).size() != whole.size()) l.fail(node, "its results have other dimensions");
  }
  const DraftOperator* found = cut_product(l, from, whole[dim]);
  if (found == nullptr || node.outputs.empty()) return lower_copy(l, node, row);
  const DraftOperator product = *found;
  l.draft().operators.pop_back();
  const std::size_t fusion = l.next_fusion();
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    DraftOperator op = product;
    const ImportedAxis piece = l.axes().make_axis(l.shape(node.outputs[i])[dim]);
    for (std::size_t p = 0; p < op.parameters.size(); ++p) {
      op.parameters[p].dims = p == 0 ? joined({op.contracted, piece}) : piece;
      op.parameters[p].piece = i;
    }
    op.fused = fusion;
    op.launches = i == 0;
    op.made.clear();
    ImportedAxes axes = whole;
    axes[dim] = piece;
    l.set(node.outputs[i], l.make(op, axes), axes);
    l.add(std::move(op));
  }
}

}  // namespace plansearch::io
