// SPDX-License-Identifier: Apache-2.0
#include "exchange/networks/operator_rows.hpp"

#include <algorithm>
#include <array>

namespace plansearch::io {
namespace {

constexpr std::string_view kAten = "aten.";

/// Lowers an undescribed operator: everything is read once and written once.
void lower_pass(Lowering& l, const ImportedNode& node, const ImportedRow& row) {
  for (const ImportedId id : node.outputs) {
    DraftOperator op = l.start(node, "elementwise");
    op.keeps = row.keeps;
    for (const ImportedId in : Lowering::inputs(node)) {
      if (l.at(in).is != DraftValue::Is::Plain) op.reads.push_back(l.read(node, in));
    }
    const ImportedAxes made = l.carried(node, first_input(l, node), id);
    const DraftId tensor = l.make(op, made);
    l.add(std::move(op));
    l.set(id, tensor, made);
  }
}

/// Rows that a stub may give to any operator.
constexpr std::array kGeneral{ImportedRow{"nothing", lower_nothing},
                              ImportedRow{"pass", lower_pass, Keeps::Inputs}};

const ImportedRow* find_in(std::span<const ImportedRow> rows, std::string_view name) {
  const auto found = std::lower_bound(
      rows.begin(), rows.end(), name,
      [](const ImportedRow& row, std::string_view wanted) { return row.name < wanted; });
  return found != rows.end() && found->name == name ? &*found : nullptr;
}

}  // namespace

const ImportedRow* find_row(std::string_view kind) {
  if (kind.starts_with(kAten)) return find_in(aten_rows(), kind.substr(kAten.size()));
  if (kind.starts_with(kOnnx)) return find_in(onnx_rows(), kind.substr(kOnnx.size()));
  return find_in(kGeneral, kind);
}

std::vector<std::string> row_names() {
  std::vector<std::string> names;
  for (const ImportedRow& row : aten_rows())
    names.push_back(std::string(kAten) + std::string(row.name));
  for (const ImportedRow& row : onnx_rows())
    names.push_back(std::string(kOnnx) + std::string(row.name));
  for (const ImportedRow& row : kGeneral) names.emplace_back(row.name);
  return names;
}

}  // namespace plansearch::io
