// SPDX-License-Identifier: Apache-2.0
#include "cli/shipped_files.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "cli/data_root.hpp"
#include "io/framework_reader.hpp"
#include "io/profile_reader.hpp"
#include "plansearch/error.hpp"

namespace plansearch::cli {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> directory(const char* kind) {
  return {data_root() / kind};
}

/// Adds the page that describes the format where a message about a place in a file has no remedy.
template <typename Load>
auto with_page(const char* page, Load load) {
  try {
    return load();
  } catch (const InputError& error) {
    if (!error.hint().empty() || error.where().file.empty()) throw;
    throw InputError(error.where(), error.what(), fmt::format("{} describes every key", page));
  }
}

}  // namespace

Cluster load_shipped_cluster(std::string_view name) {
  return with_page("docs/hardware_profiles.md",
                   [&] { return io::load_cluster(name, directory("hardware_profiles")); });
}

ModelDescription load_shipped_model(std::string_view name) {
  return load_shipped_model_file(name).model;
}

io::ModelFile load_shipped_model_file(std::string_view name) {
  return with_page("docs/models.md", [&] { return io::load_model(name, directory("models")); });
}

Framework load_shipped_framework(std::string_view name) {
  return with_page("docs/frameworks.md",
                   [&] { return io::load_framework(name, directory("frameworks")); });
}

std::vector<io::NamedFile> shipped_clusters() {
  return io::list_clusters(directory("hardware_profiles"));
}

std::vector<io::NamedFile> shipped_models() {
  return io::list_models(directory("models"));
}

std::vector<io::NamedFile> shipped_frameworks() {
  return io::list_frameworks(directory("frameworks"));
}

}  // namespace plansearch::cli
