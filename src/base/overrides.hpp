// SPDX-License-Identifier: Apache-2.0
// "--set tiers.nvlink.bandwidth=225GB/s": single values of data files, changed before they are
// read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace plansearch {

/// The file that a path begins in.
enum class OverriddenFile : std::uint8_t {
  Hardware,   ///< also where the path names no file: "tiers.nvlink.bandwidth", "accelerator.memory"
  Model,      ///< "model.layers"
  Framework,  ///< "framework.constants.layer_kernels"
};

struct Override {
  OverriddenFile file = OverriddenFile::Hardware;
  std::vector<std::string> path;  ///< keys, and names or numbers of list items, outermost first
  std::string value;              ///< as a data file would hold it
  std::string typed;              ///< "--set tiers.nvlink.bandwidth=225GB/s", for messages
  bool operator==(const Override&) const = default;
};

/// The overrides of one `--set`, or of several between ';'. InputError for a part without a path or
/// without a value, and for a path that is set twice.
[[nodiscard]] std::vector<Override> parse_overrides(std::string_view text);

/// The overrides of one file.
[[nodiscard]] std::vector<Override> overrides_of(std::string_view text, OverriddenFile file);

/// "a.b=1; c=100..400GB/s" as one text for every combination of values: of lists ("1,2,4"), of
/// ranges that double ("100..400GB/s": 100, 200, 400) and of ranges with a step
/// ("100..400:100GB/s"). Lists and maps in brackets are single values. InputError for a range that
/// is none, or of more than 64 values.
[[nodiscard]] std::vector<std::string> override_combinations(std::string_view text);

}  // namespace plansearch
