// SPDX-License-Identifier: Apache-2.0
#include "exchange/networks/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/names.hpp"

namespace plansearch::io {

ImportedAxis joined(const ImportedAxes& axes) {
  ImportedAxis all;
  for (const ImportedAxis& axis : axes) all.insert(all.end(), axis.begin(), axis.end());
  return all;
}

std::int64_t nth_of(const std::vector<std::int64_t>& list, std::size_t i, std::int64_t usual) {
  return list.empty() ? usual : list[std::min(i, list.size() - 1)];
}

std::string to_text(const ImportedShape& shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

Lowering::Lowering(const ImportedGraph& graph)
    : graph_(graph), values_(graph.values.size()), uses_(graph.values.size(), 0) {
  for (const ImportedNode& node : graph.nodes) {
    for (const ImportedId id : inputs(node)) ++uses_[id];
  }
  for (const ImportedId id : graph.outputs) ++uses_[id];
  for (ImportedId id = 0; id < values_.size(); ++id) start_value(id);
}

/// The first dimension of the first input is the batch; other inputs as long there have it too.
void Lowering::start_value(ImportedId id) {
  const ImportedValue& value = graph_.values[id];
  DraftValue& draft = values_[id];
  if (value.origin == ValueOrigin::Operator) return;
  if (value.origin == ValueOrigin::Input && !value.shape.empty()) {
    const AtomId batch = axes().make_batch(value.shape.front());
    if (axes().extent(batch) == value.shape.front()) {
      draft.axes.push_back({batch});
    } else {
      draft.axes.push_back(axes().make_axis(value.shape.front()));
    }
    const ImportedAxes rest = fresh({value.shape.begin() + 1, value.shape.end()});
    draft.axes.insert(draft.axes.end(), rest.begin(), rest.end());
    if (!value.floating) {
      for (const ImportedAxis& axis : rest) axes().mark_token(axis);
    }
    const ElementClass element = value.floating ? ElementClass::Activation : ElementClass::Index;
    draft.is = DraftValue::Is::Tensor;
    draft.tensor = draft_.tensors.size();
    draft_.tensors.push_back({value.name, joined(draft.axes), element, false, std::nullopt, 1.0});
    draft_.inputs.push_back(draft.tensor);
    note_view(id);
    return;
  }
  draft.axes = fresh(value.shape);
  draft.parameter = id;
  draft.is =
      value.origin == ValueOrigin::Parameter ? DraftValue::Is::Parameter : DraftValue::Is::Plain;
}

ImportedId Lowering::need(const ImportedNode& node, std::string_view name) const {
  const auto id = node.value(name);
  if (!id) fail(node, fmt::format("it has no tensor '{}'", name));
  return *id;
}

std::vector<ImportedId> Lowering::inputs(const ImportedNode& node) {
  std::vector<ImportedId> ids;
  for (const auto& [name, argument] : node.arguments) {
    if (const auto* id = std::get_if<ImportedId>(&argument)) ids.push_back(*id);
    if (const auto* list = std::get_if<std::vector<std::optional<ImportedId>>>(&argument)) {
      for (const auto& id : *list) {
        if (id) ids.push_back(*id);
      }
    }
  }
  return ids;
}

std::size_t Lowering::place(const ImportedNode& node, ImportedId id, std::int64_t dim) const {
  const auto rank = static_cast<std::int64_t>(shape(id).size());
  const std::int64_t counted = dim < 0 ? dim + rank : dim;
  if (counted < 0 || counted >= rank) {
    fail(node, fmt::format("dimension {} of a tensor with {}", dim, rank));
  }
  return static_cast<std::size_t>(counted);
}

void Lowering::fail(const ImportedNode& node, const std::string& what, std::string hint) const {
  if (hint.empty()) hint = "docs/imports.md says what is read; a stub may say what it is like";
  std::string shapes;
  for (const ImportedId id : inputs(node)) shapes += " " + to_text(shape(id));
  graph_.fail(fmt::format("{} in {}, of{}: {}", node.target,
                          node.module.empty() ? "the network itself" : node.module, shapes, what),
              std::move(hint));
}

ImportedAxes Lowering::fresh(const ImportedShape& shape) {
  ImportedAxes made;
  for (const std::int64_t extent : shape) made.push_back(axes().make_axis(extent));
  return made;
}

DraftOperator Lowering::start(const ImportedNode& node, std::string_view word) const {
  DraftOperator op;
  const std::size_t dot = node.kind.rfind('.');
  op.name = dot == std::string::npos ? node.kind : node.kind.substr(dot + 1);
  op.module = node.module;
  op.row = find_traits(word);
  PLANSEARCH_CHECK(op.row != nullptr);
  return op;
}

DraftOperator Lowering::start(const ImportedNode& node, std::string_view word, ImportedId in) {
  DraftOperator op = start(node, word);
  op.reads.push_back(read(node, in));
  return op;
}

DraftId Lowering::make(DraftOperator& op, const ImportedAxes& axes, ElementClass element,
                       std::string_view part) {
  DraftTensor tensor{std::string(part), joined(axes), element, true, draft_.operators.size(), 1.0};
  tensor.gradient = !op.parameters.empty();
  for (const DraftRead& read : op.reads) {
    tensor.gradient |= draft_.tensors[read.tensor].gradient;
    tensor.visible = std::min(tensor.visible, draft_.tensors[read.tensor].visible);
  }
  op.made.push_back(draft_.tensors.size());
  draft_.tensors.push_back(std::move(tensor));
  return op.made.back();
}

DraftId Lowering::add(DraftOperator op) {
  for (const DraftId id : op.made) draft_.tensors[id].made_by = draft_.operators.size();
  draft_.operators.push_back(std::move(op));
  return draft_.operators.size() - 1;
}

DraftId Lowering::add_result(const ImportedNode& node, DraftOperator op, const ImportedAxes& made) {
  const DraftId tensor = make(op, made);
  add(std::move(op));
  set(node.outputs.front(), tensor, made);
  return tensor;
}

/// Checks that the axes derived from operators agree with the shape that the file states.
void Lowering::check_axes(ImportedId id, const ImportedAxes& axes) const {
  const ImportedValue& value = graph_.values[id];
  bool fits = axes.size() == value.shape.size();
  for (std::size_t i = 0; fits && i < axes.size(); ++i) {
    fits = draft_.axes.extent(axes[i]) == value.shape[i];
  }
  if (fits) return;
  ImportedShape made;
  for (const ImportedAxis& axis : axes) made.push_back(draft_.axes.extent(axis));
  graph_.fail(fmt::format("'{}' has the shape {}, and its operator makes {}",
                          printable(value.name, 40), to_text(value.shape), to_text(made)));
}

void Lowering::note_view(ImportedId id) {
  if (values_[id].is != DraftValue::Is::Tensor) return;
  views_.resize(draft_.tensors.size());
  views_[values_[id].tensor].push_back(id);
}

void Lowering::set(ImportedId id, DraftId tensor, ImportedAxes axes) {
  check_axes(id, axes);
  values_[id].is = DraftValue::Is::Tensor;
  values_[id].tensor = tensor;
  values_[id].axes = std::move(axes);
  note_view(id);
}

void Lowering::set_view(ImportedId id, ImportedId of, ImportedAxes axes) {
  check_axes(id, axes);
  values_[id] = values_[of];
  values_[id].counts_along.reset();
  values_[id].axes = std::move(axes);
  note_view(id);
}

void Lowering::set_plain(ImportedId id, ImportedAxes axes, double visible,
                         std::optional<std::size_t> counts_along) {
  check_axes(id, axes);
  if (counts_along && *counts_along >= axes.size()) counts_along.reset();
  values_[id].is = DraftValue::Is::Plain;
  values_[id].axes = std::move(axes);
  values_[id].visible = visible;
  values_[id].counts_along = counts_along;
}

void Lowering::leave_rest(const ImportedNode& node) {
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    set_plain(node.outputs[i], fresh(shape(node.outputs[i])));
  }
}

DraftRead Lowering::read(const ImportedNode& node, ImportedId id) {
  const DraftValue& value = at(id);
  if (value.is == DraftValue::Is::Tensor) return {value.tensor, {}, {}};
  DraftOperator op = start(node, "elementwise");
  op.keeps = Keeps::Nothing;
  const ImportedAxes own = value.axes;
  if (value.is == DraftValue::Is::Parameter) {
    op.parameters.push_back({value.parameter, joined(own), std::nullopt});
  }
  const DraftId made = make(op, own);
  op.name += "_operand";
  add(std::move(op));
  set(id, made, own);
  return {made, {}, {}};
}

DraftRead Lowering::read_along(const ImportedNode& node, ImportedId id, const ImportedAxes& loop) {
  DraftRead result = read(node, id);
  const ImportedAxes& own = at(id).axes;
  for (std::size_t i = 0; i < own.size() && i < loop.size(); ++i) {
    const ImportedAxis& mine = own[own.size() - 1 - i];
    if (!mine.empty()) result.renamed.emplace_back(mine, loop[loop.size() - 1 - i]);
  }
  return result;
}

/// Dimensions in front of and behind the first and the last one that differ stay what they are; and
/// what has a batch goes on having it.
ImportedAxes Lowering::carried(const ImportedNode& node, ImportedId from, ImportedId to) {
  const ImportedShape& old = shape(from);
  const ImportedShape& wanted = shape(to);
  const ImportedAxes& own = at(from).axes;
  ImportedAxes made = fresh(wanted);
  const std::size_t common = std::min(old.size(), wanted.size());
  std::size_t front = 0;
  for (; front < common && old[front] == wanted[front]; ++front) made[front] = own[front];
  for (std::size_t back = 1; back + front <= common; ++back) {
    if (old[old.size() - back] != wanted[wanted.size() - back]) break;
    made[made.size() - back] = own[own.size() - back];
  }
  const auto batched = [&](const ImportedAxes& list) {
    return std::ranges::any_of(list, [&](const ImportedAxis& axis) {
      return std::ranges::any_of(axis, [&](AtomId a) { return axes().is_batch(a); });
    });
  };
  if (!batched(own) || batched(made) || made.empty()) return made;
  const AtomId batch = *axes().batch();
  const std::int64_t size = axes().extent(batch);
  if (wanted.front() % size != 0) fail(node, "it mixes samples of the batch");
  made.front() = axes().make_axis(wanted.front() / size);
  made.front().insert(made.front().begin(), batch);
  return made;
}

void Lowering::copy(const ImportedNode& node, ImportedId from, ImportedId to) {
  DraftOperator op = start(node, "elementwise");
  op.keeps = Keeps::Nothing;
  op.reads.push_back(read(node, from));
  const ImportedAxes made = carried(node, from, to);
  const DraftId tensor = make(op, made, draft_.tensors[op.reads.front().tensor].element);
  set(to, tensor, made);
  add(std::move(op));
}

void Lowering::mask(DraftId tensor, double visible) {
  constexpr int kLongestChain = 16;
  for (int steps = 0; steps < kLongestChain; ++steps) {
    DraftTensor& masked = draft_.tensors[tensor];
    masked.visible = std::min(masked.visible, visible);
    if (!masked.made_by) return;
    DraftOperator& op = draft_.operators[*masked.made_by];
    if (op.row->cost == CostClass::ActivationProduct) {
      op.useful_fraction = std::min(op.useful_fraction, visible);
      return;
    }
    if (!op.row->goes_by_element() || op.reads.empty()) return;
    tensor = op.reads.front().tensor;
  }
}

Draft Lowering::finish() {
  for (const ImportedId id : graph_.outputs) {
    if (is_tensor(id)) draft_.results.push_back(at(id).tensor);
  }
  return std::move(draft_);
}

}  // namespace plansearch::io
