// SPDX-License-Identifier: Apache-2.0
// An imported network as the text of a graph file (plansearch/graph/v1, as JSON).
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "exchange/networks/draft.hpp"

namespace plansearch::io {

/// Blocks whose texts are equal are copies of one.
[[nodiscard]] std::string graph_text(const ImportedGraph& graph, Draft draft);

// Which part every dimension of an imported network plays: by what operators do with it, never by
// what anything is called.

/// Roles by atom, after all operators have been read; atoms that are left out are `Other`.
/// Marks the operators of attention cores and norms as parts of a layer, too.
[[nodiscard]] std::map<AtomId, DimRole> dimension_roles(Draft& draft);

// Where an imported network is cut into blocks: at the numbered modules of its source.

/// Consecutive operators that become one block.
struct DraftSegment {
  std::string module;  ///< the numbered module they belong to; empty: between those
  std::vector<DraftId> operators;
};

/// Operators whose results nothing needs are left out. Modules of a list (`h.0`, `h.1`; `layer_0`,
/// `layer_1`) are blocks where two of them compute the same: the outermost such list. Elsewhere a
/// numbered module is a block that holds no such list, the outermost one. Either holds two or more
/// products with weights (one, where none has two). Operators between two of them are blocks of
/// their own, where they have parameters.
[[nodiscard]] std::vector<DraftSegment> cut_blocks(const Draft& draft);

// One block of an imported network as text, under names that copies of it share.

/// Names of dimensions. Those of tensors between blocks are one a dimension; those inside a block
/// are shared by all blocks that have as many of that role and extent.
class DimensionNames {
 public:
  DimensionNames(const AxisTable& axes, std::map<AtomId, DimRole> roles)
      : axes_(axes), roles_(std::move(roles)) {}

  /// Names the dimension of an atom that occurs in tensors between blocks.
  void make_outer(AtomId atom);
  /// A new block begins: its inner dimensions are counted from the first.
  void start_block();
  [[nodiscard]] const std::string& name(AtomId atom);
  [[nodiscard]] bool is_cut(AtomId atom) const;
  /// The same dimension once more in the operator that has it already.
  [[nodiscard]] const std::string& second(AtomId atom);
  /// "NAME": {"extent": E, "role": "ROLE"}, ...
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::string take(DimRole role, std::int64_t extent, std::size_t number);
  [[nodiscard]] DimRole role(AtomId atom) const;

  const AxisTable& axes_;
  std::map<AtomId, DimRole> roles_;
  std::map<AtomId, std::string> outer_;
  std::map<AtomId, std::string> inner_;
  std::map<AtomId, std::string> seconds_;
  std::map<std::pair<DimRole, std::int64_t>, std::size_t> counts_;
  std::map<std::tuple<DimRole, std::int64_t, std::size_t>, std::string> pool_;
  std::set<std::string> used_;
  std::vector<std::string> lines_;
};

/// Tensors that enter and leave a block, by the names of its ports.
struct BlockPorts {
  std::vector<std::pair<std::string, DraftId>> in;
  std::vector<std::pair<std::string, DraftId>> out;
};

struct BlockTextContext {
  const ImportedGraph& graph;
  const Draft& draft;
  DimensionNames& names;
  const std::map<ImportedId, std::size_t>& uses;  ///< operators that have a parameter
  const std::set<ImportedId>& tables;             ///< parameters that are looked up
};

/// The value of the block's name in "blocks".
[[nodiscard]] std::string block_text(const BlockTextContext& context, const DraftSegment& segment,
                                     const BlockPorts& ports, std::string_view kind);

/// Letters, digits, underscores and dots.
[[nodiscard]] std::string plain_name(std::string_view text);

}  // namespace plansearch::io
