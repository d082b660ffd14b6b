// SPDX-License-Identifier: Apache-2.0
#include "cli/data_root.hpp"

#include <cstdlib>

#include "plansearch/error.hpp"

namespace plansearch::cli {
namespace {

namespace fs = std::filesystem;

bool holds_data(const fs::path& root) {
  std::error_code error;
  return fs::is_directory(root / "hardware_profiles", error);
}

}  // namespace

fs::path data_root() {
  if (const char* named = std::getenv("PLANSEARCH_DATA"); named != nullptr && *named != '\0') {
    if (holds_data(named)) return named;
    throw InputError(
        {named, 0, 0}, "PLANSEARCH_DATA has no directory hardware_profiles",
        "point it at the directory that holds hardware_profiles, models and frameworks");
  }
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    const fs::path installed = executable.parent_path().parent_path() / "share" / "plansearch";
    if (holds_data(installed)) return installed;
  }
  if (holds_data(PLANSEARCH_SOURCE_DIR)) return PLANSEARCH_SOURCE_DIR;
  throw InputError({}, "cannot find the shipped hardware profiles, models and frameworks",
                   "set PLANSEARCH_DATA to the directory that holds them");
}

}  // namespace plansearch::cli
