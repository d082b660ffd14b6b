// SPDX-License-Identifier: Apache-2.0
// From what the user typed to a file: a path, a shipped name, or an alias listed in a file.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/overrides.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io {

/// A kind of file that is found by name.
struct NamedFiles {
  std::string what;                                ///< for messages: "hardware profile"
  std::vector<std::filesystem::path> directories;  ///< searched in order
  std::vector<std::string> extensions = {".yaml"};
  std::filesystem::path base = {};  ///< where relative paths start; empty: the current directory
  std::vector<std::string> apart = {};  ///< file names in the directories that hold something else
  std::string listing = {};             ///< argument of `plansearch list` that shows them
  /// Folders of the user, searched before: a file there is found by its own name alone, where its
  /// `schema` says that it is of the kind.
  std::vector<std::filesystem::path> beside = {};
  std::string schema = {};
  /// Shorter forms of a name that nothing has, the longest first; may be absent.
  std::function<std::vector<std::string>(const std::string& name)> plainer = {};
  std::string otherwise = {};  ///< the way out where no name will do, for messages
};

/// A file that can be named, with its aliases.
struct NamedFile {
  std::string name;  ///< file name without extension
  std::vector<std::string> aliases;
  std::filesystem::path path;
};

/// Every file of the kind, sorted by name; of equal names the first directory's wins.
[[nodiscard]] std::vector<NamedFile> list_files(const NamedFiles& kind);

/// The file meant by `text`: an existing path, else a name ("dgx-h100", "DGX_H100",
/// "dgx-h100.yaml", "organisation/dgx-h100"), else an alias, else either of them without hyphens
/// or in a plainer form. Otherwise an InputError at `where` with the nearest names.
[[nodiscard]] std::filesystem::path resolve_file(std::string_view text, const NamedFiles& kind,
                                                 const SourceLocation& where = {});

// Rates, bandwidths, times and sizes of data files by the path under which `--set` changes them.

struct FileQuantity {
  std::string key;    ///< "tiers.nvlink.bandwidth", "accelerator.kernels.stream.launch"
  std::string value;  ///< "450 GB/s"
  /// The argument of `--set` that multiplies it by `factor`.
  [[nodiscard]] std::string set(double factor) const;

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
