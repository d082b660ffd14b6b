// SPDX-License-Identifier: Apache-2.0
// Rates, bandwidths, times and sizes of data files by the path under which `--set` changes them.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/overrides.hpp"
#include "plansearch/cluster.hpp"

namespace plansearch::io {

struct FileQuantity {
  std::string key;    ///< "tiers.nvlink.bandwidth", "accelerator.kernels.stream.launch"
  std::string value;  ///< "450 GB/s"
  /// The argument of `--set` that multiplies it by `factor`.
  [[nodiscard]] std::string set(double factor) const;
  /// The value times `factor`, as a text for readers: "495 GB/s".
  [[nodiscard]] std::string times(double factor) const;

  std::string path;    ///< of `set`; differs from `key` where a curve is replaced as a whole
  std::string before;  ///< what stands around the value there
  std::string after;
};

/// Quantities of a profile and of its accelerator file, with the files that they are `like`, after
/// `overrides`. Links and fabrics have the curves that `cluster` ended up with.
[[nodiscard]] std::vector<FileQuantity> cluster_quantities(
    std::string_view name_or_path, std::span<const std::filesystem::path> directories,
    std::span<const Override> overrides, const Cluster& cluster);

/// Quantities of a framework file and of the files that it is `like`.
[[nodiscard]] std::vector<FileQuantity> framework_quantities(
    std::string_view name_or_path, std::span<const std::filesystem::path> directories,
    std::span<const Override> overrides);

}  // namespace plansearch::io
