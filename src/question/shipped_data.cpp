// SPDX-License-Identifier: Apache-2.0
#include "plansearch/shipped_data.hpp"

#include <fmt/format.h>
#include <sys/auxv.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <system_error>
#include <utility>

#include "base/names.hpp"
#include "base/overrides.hpp"
#include "io/document/file.hpp"
#include "io/framework/framework_reader.hpp"
#include "io/hardware/profile_reader.hpp"
#include "io/model/model_reader.hpp"
#include "io/plan/plan_document.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

namespace fs = std::filesystem;

/// The page that describes the format, where a message about a place in a file has no remedy.
InputError with_page(const InputError& error, const char* page) {
  if (!error.hint().empty() || error.where().file.empty()) return error;
  return {error.where(), error.what(), fmt::format("{} describes every key", page)};
}

template <typename Load>
auto with_page(const char* page, Load load) {
  try {
    return load();
  } catch (const InputErrors& errors) {
    std::vector<InputError> all;
    for (const InputError& error : errors.all()) all.push_back(with_page(error, page));
    throw InputErrors(std::move(all));
  } catch (const InputError& error) {
    throw with_page(error, page);
  }
}

std::array<fs::path, 1> inside(const fs::path& directory, const char* kind) {
  return {directory / kind};
}

std::vector<ShippedFile> shipped(std::vector<io::NamedFile> files) {
  std::vector<ShippedFile> result;
  for (io::NamedFile& file : files) {
    result.push_back({std::move(file.name), std::move(file.aliases), std::move(file.path)});
  }
  return result;
}

/// Sorted; none where there is no such folder.
std::vector<fs::path> yaml_files(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

bool holds_data(const fs::path& directory) {
  std::error_code error;
  return fs::is_directory(directory / "hardware_profiles", error);
}

/// The path of this program; where /proc is not mounted, as it was started.
fs::path own_path(std::error_code& error) {
  fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (!error) return path;
  const auto* started = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));  // NOLINT: its type
  return started == nullptr ? fs::path() : fs::canonical(started, error);
}

}  // namespace

ShippedData ShippedData::changed(std::string set) const {
  ShippedData other = *this;
  if (!set_.empty() && !set.empty()) set = fmt::format("{}; {}", set_, set);
  static_cast<void>(parse_overrides(set));  // malformed ones are refused here
  if (!set.empty()) other.set_ = std::move(set);
  return other;
}

ShippedData ShippedData::with_operators(std::string stubs) const {
  ShippedData other = *this;
  other.operators_ = std::move(stubs);
  return other;
}

Cluster ShippedData::cluster(std::string_view name) const {
  return with_page("docs/hardware_profiles.md", [&] {
    return io::load_cluster(name, inside(directory_, "hardware_profiles"),
                            overrides_of(set_, OverriddenFile::Hardware));
  });
}

Accelerator ShippedData::accelerator(std::string_view name) const {
  return io::load_accelerator(name, inside(directory_, "hardware_profiles"));
}

ShippedModel ShippedData::model(std::string_view name) const {
  return with_page("docs/models.md", [&] {
    io::ModelFile file = io::load_model(name, inside(directory_, "models"),
                                        overrides_of(set_, OverriddenFile::Model), operators_);
    return ShippedModel{std::move(file.model), file.hash, std::move(file.left_out),
                        std::move(file.passed_over)};
  });
}

Framework ShippedData::framework(std::string_view name) const {
  return with_page("docs/frameworks.md", [&] {
    return io::load_framework(name, inside(directory_, "frameworks"),
                              overrides_of(set_, OverriddenFile::Framework));
  });
}

SiteTable ShippedData::sites() const {
  return with_page("docs/validate.md",
                   [&] { return io::read_sites(directory_ / "validation" / "sites.yaml"); });
}

std::vector<Recipe> ShippedData::recipes_naming(const std::vector<std::string>& names) const {
  std::vector<Recipe> recipes;
  for (const fs::path& file : yaml_files(directory_ / "recipes")) {
    const std::string text = canonical_name(io::read_file(file));
    const bool escapes = text.find('\\') != std::string::npos;
    const bool named = std::ranges::all_of(names, [&](const std::string& name) {
      return text.find(canonical_name(name)) != std::string::npos;
    });
    if (!named && !escapes) continue;
    for (Recipe& recipe : with_page("docs/mixtures.md", [&] { return io::read_recipes(file); })) {
      recipes.push_back(std::move(recipe));
    }
  }
  return recipes;
}

std::vector<ShippedFile> ShippedData::clusters() const {
  return shipped(io::list_clusters(inside(directory_, "hardware_profiles")));
}

std::vector<ShippedFile> ShippedData::models() const {
  return shipped(io::list_models(inside(directory_, "models")));
}

std::vector<ShippedFile> ShippedData::frameworks() const {
  return shipped(io::list_frameworks(inside(directory_, "frameworks")));
}

std::vector<ShippedFile> ShippedData::constraints() const {
  std::vector<ShippedFile> found;
  for (const fs::path& file : yaml_files(directory_ / "constraints")) {
    found.push_back({file.stem().string(), {}, file});
  }
  return found;
}

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
