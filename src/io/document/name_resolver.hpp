// SPDX-License-Identifier: Apache-2.0
// From what the user typed to a file: a path, a shipped name, or an alias listed in a file.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

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
/// "dgx-h100.yaml", "organisation/dgx-h100"), else an alias. Otherwise an InputError at `where`
/// with the nearest names.
[[nodiscard]] std::filesystem::path resolve_file(std::string_view text, const NamedFiles& kind,
                                                 const SourceLocation& where = {});

}  // namespace plansearch::io
