// SPDX-License-Identifier: Apache-2.0
#include <sys/auxv.h>

#include <cstdlib>
#include <system_error>

#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {
namespace {

namespace fs = std::filesystem;

bool holds_data(const fs::path& directory) {
  std::error_code error;
  return fs::is_directory(directory / "hardware_profiles", error);
}

/// Path of this program; without /proc the path it was started by.
fs::path own_path(std::error_code& error) {
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (!error) return path;
  const auto* started = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));  // NOLINT: its type
  return started == nullptr ? fs::path() : fs::canonical(started, error);
}

}  // namespace

ShippedData find_shipped_data(const fs::path& packaged) {
  if (const char* named = std::getenv("PLANSEARCH_DATA"); named != nullptr && *named != '\0') {
    if (holds_data(named)) return ShippedData(named);
    throw InputError(
        {named, 0, 0}, "PLANSEARCH_DATA has no directory hardware_profiles",
        "point it at the directory that holds hardware_profiles, models and frameworks");
  }
  if (!packaged.empty() && holds_data(packaged)) return ShippedData(packaged);
  std::error_code error;
  const fs::path executable = own_path(error);
  if (!error) {
    const fs::path installed = executable.parent_path().parent_path() / "share" / "plansearch";
    if (holds_data(installed)) return ShippedData(installed);
  }
  if (holds_data(PLANSEARCH_SOURCE_DIR)) return ShippedData(PLANSEARCH_SOURCE_DIR);
  throw InputError({}, "cannot find the shipped hardware profiles, models and frameworks",
                   "set PLANSEARCH_DATA to the directory that holds them");
}

ShippedData::ShippedData(fs::path directory) : directory_(std::move(directory)) {
  if (holds_data(directory_)) return;
  throw InputError({directory_.string(), 0, 0}, "has no directory hardware_profiles",
                   "name the directory that holds hardware_profiles, models and frameworks");
}

}  // namespace plansearch
