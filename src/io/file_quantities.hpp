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
  /// What `--set` takes to make it `factor` times as much.
  [[nodiscard]] std::string set(double factor) const;
  /// So many times the value, for readers: "495 GB/s".
  [[nodiscard]] std::string times(double factor) const;

  std::string path;    ///< of `set`; differs from `key` where a curve is replaced as a whole
  std::string before;  ///< what stands around the value there
  std::string after;
};

/// Of a profile and of the accelerator file that it names, those they are `like` included, as
/// `overrides` leave them; of links and fabrics the curves that `cluster` has after all.
[[nodiscard]] std::vector<FileQuantity> cluster_quantities(
    std::string_view name_or_path, std::span<const std::filesystem::path> directories,
    std::span<const Override> overrides, const Cluster& cluster);

/// Of a framework file and of those it is like.
[[nodiscard]] std::vector<FileQuantity> framework_quantities(
    std::string_view name_or_path, std::span<const std::filesystem::path> directories,
    std::span<const Override> overrides);

}  // namespace plansearch::io
