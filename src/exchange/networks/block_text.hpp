// SPDX-License-Identifier: Apache-2.0
// One block of an imported network as text, under names that copies of it share.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "exchange/networks/block_cutter.hpp"
#include "exchange/networks/draft.hpp"

namespace plansearch::io {

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
  /// Whether degrees may cut it.
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
