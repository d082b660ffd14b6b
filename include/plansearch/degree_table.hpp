// SPDX-License-Identifier: Apache-2.0
// The table of degrees: what each is called, which values it takes and where a plan keeps it.
// Flags, plan files, JSON, CSV columns, tables of measured runs and spaces all read it.
#pragma once

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/degree_set.hpp"
#include "plansearch/degrees.hpp"

namespace plansearch {

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

}  // namespace plansearch
