// SPDX-License-Identifier: Apache-2.0
// Execution traces of MLCommons Chakra: one file a rank, and the groups of ranks that they name.
//
// Source: mlcommons/chakra@21585d8f (2026-05-20) schema/protobuf/et_def.proto, src/generator,
//         src/feeder/et_feeder_node.cpp (names and types of attributes), et_feeder.cpp (data_deps
//         decide, each once); astra-sim@518bd513 (2026-03-26) workload/Workload.cc (pg_name, group
//         files), astraccl/.../Ring.cc (the size of a gather is what a rank gives).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/traces/step_nodes.hpp"
#include "plansearch/plan.hpp"

namespace plansearch {

/// The description of a trace in its metadata.
struct TraceOrigin {
  std::string version;   ///< of this program
  std::string question;  ///< "llama3-8b on 8 x h100-sxm5-80gb"
};

class ExecutionTraces {
 public:
  /// All of these must outlive it.
  ExecutionTraces(const StepNodes& step, const ParallelPlan& plan, TraceOrigin origin);

  [[nodiscard]] int ranks() const { return static_cast<int>(places_.size()); }
  /// The number of nodes of all ranks together.
  [[nodiscard]] std::int64_t nodes() const;
  /// The file of a rank, piece by piece.
  void write(int rank, const std::function<void(std::string_view)>& append) const;
  /// {"1": [0, 1], ...}: ranks of every group by the name that nodes call it.
  [[nodiscard]] std::string groups() const;

 private:
  struct Place {
    int stage = 0;
    std::size_t number = 0;  ///< among the ranks of the stage
  };

  [[nodiscard]] std::vector<int> members(const StepNode& node, int rank) const;
  [[nodiscard]] std::vector<std::uint64_t> waits(const StepNode& node, int rank) const;
  [[nodiscard]] std::string name_of(const StepNode& node) const;
  [[nodiscard]] std::string metadata(int rank) const;
  void write_node(const StepNode& node, std::size_t index, int rank, std::uint64_t microseconds,
                  std::string& out) const;
  void write_ring(const StepNode& node, std::size_t index, int rank, std::string& out) const;

  const StepNodes& step_;
  const ParallelPlan& plan_;
  TraceOrigin origin_;
  std::vector<std::vector<int>> ranks_;  ///< by stage
  std::vector<Place> places_;            ///< by rank
  std::map<std::vector<int>, int> groups_;
};

/// One message, field by field. Fields at their default are left out, as proto3 does.
class WireWriter {
 public:
  void number(std::uint32_t field, std::uint64_t value) {
    if (value == 0) return;
    chosen(field, value);
  }
  /// The same of a member of a oneof, which says by its presence which one it is.
  void chosen(std::uint32_t field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3U);
    varint(value);
  }
  void bytes(std::uint32_t field, std::string_view value) {
    varint((std::uint64_t{field} << 3U) | 2U);
    varint(value.size());
    text_ += value;
  }
  /// Packed.
  void numbers(std::uint32_t field, std::span<const std::uint64_t> values) {
    if (values.empty()) return;
    WireWriter packed;
    for (const std::uint64_t value : values) packed.varint(value);
    bytes(field, packed.text());
  }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) text_ += static_cast<char>((value & 0x7fU) | 0x80U);
    text_ += static_cast<char>(value);
  }

  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace plansearch
