// SPDX-License-Identifier: Apache-2.0
// Which degrees of a plan something reads or knows, and which were decided.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>

namespace plansearch {

/// The degrees of freedom of a uniform plan. The number of micro-batches is derived: batch, data,
/// depth and micro-batch decide it.
enum class Degree : std::uint8_t {
  Data,
  Pipeline,
  Chunks,
  TensorIn,
  TensorOut,
  TensorDepth,
  Context,
  ContextKind,
  Expert,
  ExpertTensor,
  Zero,
  ShardGroup,
  SequenceParallel,
  Temporal,
  MicroBatch,
  Pieces,
  Recompute,
  RecomputeLayers,
  Schedule,
  RecomputeModules,
  Dispatcher,
  Offload,
};
inline constexpr std::size_t kDegreeCount = 22;

class DegreeSet {
 public:
  constexpr DegreeSet() = default;
  constexpr DegreeSet(std::initializer_list<Degree> degrees) {
    for (const Degree degree : degrees) bits_ |= bit(degree);
  }

  constexpr void insert(Degree degree) { bits_ |= bit(degree); }
  [[nodiscard]] constexpr bool contains(Degree degree) const { return (bits_ & bit(degree)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  friend constexpr DegreeSet operator|(DegreeSet a, DegreeSet b) {
    a.bits_ |= b.bits_;
    return a;
  }
  bool operator==(const DegreeSet&) const = default;

 private:
  static constexpr std::uint32_t bit(Degree degree) {
    return std::uint32_t{1} << static_cast<unsigned>(degree);
  }
  std::uint32_t bits_ = 0;
};

/// The ranks a plan takes: their degrees multiply to its devices.
inline constexpr DegreeSet kMeshDegrees{Degree::Data,      Degree::Pipeline,    Degree::TensorIn,
                                        Degree::TensorOut, Degree::TensorDepth, Degree::Context};
/// Degrees that the number of micro-batches depends on.
inline constexpr DegreeSet kBatchDegrees{Degree::Data, Degree::TensorDepth, Degree::MicroBatch};

/// Degrees of a pipeline as a whole; every stage can have its own value of the others.
inline constexpr DegreeSet kPipelineDegrees{Degree::Pipeline, Degree::Chunks, Degree::MicroBatch,
                                            Degree::Schedule};

/// A degree that someone decided. The value of a choice is its place among the words.
struct PinnedDegree {
  Degree degree = Degree::Data;
  int value = 1;
};

/// Degrees that flags, a plan file or a row of a table decide. The others are open.
class PinnedDegrees {
 public:
  PinnedDegrees() = default;
  PinnedDegrees(std::initializer_list<PinnedDegree> degrees) {
    for (const PinnedDegree& pinned : degrees) pin(pinned.degree, pinned.value);
  }

  void pin(Degree degree, int value) { values_[index(degree)] = value; }
  void release(Degree degree) { values_[index(degree)].reset(); }
  [[nodiscard]] std::optional<int> get(Degree degree) const { return values_[index(degree)]; }
  [[nodiscard]] bool has(Degree degree) const { return get(degree).has_value(); }
  [[nodiscard]] bool empty() const { return *this == PinnedDegrees{}; }
  bool operator==(const PinnedDegrees&) const = default;

 private:
  static constexpr std::size_t index(Degree degree) { return static_cast<std::size_t>(degree); }
  std::array<std::optional<int>, kDegreeCount> values_{};
};

}  // namespace plansearch
