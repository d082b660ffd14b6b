// SPDX-License-Identifier: Apache-2.0
// The table of settings: everything a question decides except the degrees of its plan. Flags,
// completion, plan files, earlier answers, tables of measured runs, the identity of a plan and the
// page docs/settings.md read it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/problem_request.hpp"

namespace plansearch {

enum class SettingKind : std::uint8_t {
  Name,    ///< of a file
  Count,   ///< a whole number in a range
  Share,   ///< between 0 and 1, both excluded
  Word,    ///< one of a few
  Format,  ///< a number format by one of a few words, or by a longer name ("float16")
  Text,    ///< has a grammar of its own, checked when the question is settled
};

/// The part of an answer that a different value can change, the greatest effect first.
enum class SettingEffect : std::uint8_t {
  Price,    ///< step time, memory or their intervals: part of the identity of a plan
  Room,     ///< which plans fit
  Summary,  ///< what is computed from the price
};

struct SettingRow {
  Setting setting;
  std::string_view key;       ///< in files and among the settings of an answer
  std::string_view flag_key;  ///< of the flag, with '-' for '_'
  SettingKind kind;
  std::int64_t low, high;   ///< of counts
  std::string_view type;    ///< in help texts: "HARDWARE", or the words "bf16|fp16|fp32"
  std::string_view help;    ///< one clause
  std::string_view column;  ///< of tables of measured runs; empty: they have none
  SettingEffect effect;
  bool always_written;  ///< in plan files; the others only if the user chose a value
  bool lists;           ///< searches and comparisons take several values
  /// Sets several ascending values, for counts that take lists; null for the others.
  void (*set_list)(ProblemRequest&, const std::vector<std::int64_t>&);
  std::optional<std::string> (*get)(const ProblemRequest&);
  void (*set)(ProblemRequest&, const std::string&);  ///< a text without a `setting_problem`
};

/// Rows by enumerator of `Setting`.
[[nodiscard]] const std::array<SettingRow, kSettingCount>& setting_table();
[[nodiscard]] const SettingRow& row_of(Setting setting);
/// "--seq-len"
[[nodiscard]] std::string flag_of(const SettingRow& row);
[[nodiscard]] const SettingRow* find_setting(std::string_view key);

/// "bf16|fp16|fp32" as a list; empty for other kinds than words and formats.
[[nodiscard]] std::vector<std::string> words_of(const SettingRow& row);
/// "'8 %' is not a number between 0 and 1"; empty where the row takes the text.
[[nodiscard]] std::string setting_problem(const SettingRow& row, std::string_view text);

/// `asked` with every setting and degree it leaves open taken from `plan`, which is remembered as
/// their origin. A target stands for the framework, a number of nodes for that of GPUs.
[[nodiscard]] ProblemRequest completed(ProblemRequest asked, const ProblemRequest& plan);

}  // namespace plansearch
