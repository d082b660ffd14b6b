// SPDX-License-Identifier: Apache-2.0
// The table of degrees: what each is called, which values it takes and where a plan keeps it.
// Flags, plan files, JSON, CSV columns, tables of measured runs and spaces all read it.
// Sets of degrees, their decided values, and the limits that a user sets.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/degrees.hpp"

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

enum class DegreeKind : std::uint8_t {
  Number,
  Switch,  ///< 0 or 1; true or false in plan files and JSON
  Word,    ///< one of a few words, by their place in the list
};

struct DegreeRow {
  Degree degree = Degree::Data;
  std::string_view key;  ///< in files and columns; with '-' for '_' the flag
  DegreeKind kind = DegreeKind::Number;
  int low = 1;
  int high = std::numeric_limits<int>::max();  ///< of numbers
  std::string_view help;
  int (*get)(const PlanDegrees& plan) = nullptr;
  void (*set)(PlanDegrees& plan, int value) = nullptr;
  /// For rows of words only: all words by value, the value of a word, the word of a value.
  const std::vector<std::string>& (*words)() = nullptr;
  std::optional<int> (*find)(std::string_view word) = nullptr;
  std::string_view (*word)(int value) = nullptr;
  bool combines = false;  ///< words may be joined by commas or '+': a value is a set of them
};

/// Rows by enumerator of `Degree`.
[[nodiscard]] const std::array<DegreeRow, kDegreeCount>& degree_table();
[[nodiscard]] const DegreeRow& row_of(Degree degree);

/// A second name: Megatron's tensor degree is that of outputs, where the other two axes are 1.
struct DegreeAlias {
  std::string_view key;
  Degree degree;
  std::string_view help;
};
inline constexpr DegreeAlias kTensorAlias{"tp", Degree::TensorOut,
                                          "tensor-parallel degree, as in Megatron"};

/// "--micro-batch"
[[nodiscard]] std::string flag_of(std::string_view key);
/// The name people know: "tp" where no other tensor axis is pinned.
[[nodiscard]] std::string_view key_of(Degree degree, const PinnedDegrees& pinned);

/// "4", or the word.
[[nodiscard]] std::string value_text(Degree degree, int value);
/// The value of a number in range or of a known word.
[[nodiscard]] std::optional<int> parse_value(Degree degree, std::string_view text);
[[nodiscard]] bool in_range(Degree degree, std::int64_t value);
/// "at least 1", "from 0 to 3", "one of none, selective, full".
[[nodiscard]] std::string legal_text(Degree degree);

[[nodiscard]] inline int degree_value(const PlanDegrees& plan, Degree degree) {
  return row_of(degree).get(plan);
}
inline void set_degree(PlanDegrees& plan, Degree degree, int value) {
  row_of(degree).set(plan, value);
}

/// `plan` with what is pinned set.
[[nodiscard]] PlanDegrees with_pinned(PlanDegrees plan, const PinnedDegrees& pinned);
/// All degrees of a plan; without a grid the tensor degree by its Megatron name only.
[[nodiscard]] PinnedDegrees to_pinned(const PlanDegrees& plan);
/// "tp 8, recompute full"
[[nodiscard]] std::string to_text(const PinnedDegrees& pinned);

/// Degrees of which nothing is said take any value. A degree that a plan makes no use of (the kind
/// of context parallelism of a plan without it) keeps no plan out.
class DegreeLimits {
 public:
  /// These values only; at least one.
  void allow(Degree degree, std::vector<int> values);
  void at_least(Degree degree, int low);
  void at_most(Degree degree, int high);
  void release(Degree degree) { limits_[index(degree)] = {}; }

  [[nodiscard]] bool has(Degree degree) const { return limits_[index(degree)] != Limit{}; }
  [[nodiscard]] bool empty() const { return *this == DegreeLimits{}; }
  [[nodiscard]] bool admits(Degree degree, int value) const;
  /// The values listed, ascending; empty where there are only bounds.
  [[nodiscard]] const std::vector<int>& listed(Degree degree) const {
    return limits_[index(degree)].values;
  }
  /// "1,2,4", "2..8", "at most 8"; empty where nothing is said.
  [[nodiscard]] std::string text(Degree degree) const;
  bool operator==(const DegreeLimits&) const = default;

 private:
  struct Limit {
    std::vector<int> values;
    int low = std::numeric_limits<int>::min();
    int high = std::numeric_limits<int>::max();
    bool operator==(const Limit&) const = default;
  };
  static constexpr std::size_t index(Degree degree) { return static_cast<std::size_t>(degree); }
  std::array<Limit, kDegreeCount> limits_{};
};

/// "tp 1,2,4, pp 2..8"
[[nodiscard]] std::string to_text(const DegreeLimits& limits);

/// Reads one value of a degree, as parse_value does.
using DegreeParser = std::optional<int> (*)(Degree degree, std::string_view text);

/// Reads the value of a flag of a degree: one value (pinned), a list "1,2,4" of values or words, a
/// range "2..8" of numbers. InputError, naming `flag`, for anything else.
void read_degree(std::string_view flag, std::string_view text, Degree degree, PinnedDegrees& pinned,
                 DegreeLimits& limits, DegreeParser parse = parse_value);
/// One value of a degree. InputError for anything else.
[[nodiscard]] int read_degree_value(std::string_view flag, std::string_view text, Degree degree,
                                    DegreeParser parse = parse_value);

}  // namespace plansearch
