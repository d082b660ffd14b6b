// SPDX-License-Identifier: Apache-2.0
// The hardware profiles, models and frameworks that come with plansearch, by name, alias or path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/cluster.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/problem_request.hpp"
#include "plansearch/site.hpp"

/// The folder in which an installed package keeps the files; find_package(plansearch) defines it.
#ifndef PLANSEARCH_PACKAGED_DATA
#define PLANSEARCH_PACKAGED_DATA ""
#endif

namespace plansearch {

/// A file that ships, and the other names it answers to.
struct ShippedFile {
  std::string name;
  std::vector<std::string> aliases;
  std::filesystem::path path;
};

/// A model and what its file's text hashes to.
struct ShippedModel {
  ModelDescription description;
  std::uint64_t content_hash = 0;
  std::vector<std::string> left_out{};     ///< of a Hugging Face file: parts outside the network
  std::vector<std::string> passed_over{};  ///< ... and keys that no rule knows
};

/// Names match whatever their case, dashes and underscores; an unknown one is an InputError with
/// the nearest names, anything wrong in a file one with its line and column. Cheap to copy.
class ShippedData {
 public:
  /// InputError unless the directory holds hardware profiles.
  explicit ShippedData(std::filesystem::path directory);

  [[nodiscard]] const std::filesystem::path& directory() const { return directory_; }

  /// The same files with (further) values changed as `--set` says them:
  /// "tiers.nvlink.bandwidth=225GB/s; framework.vocab_multiple=64; model.layers=40". A path that a
  /// file does not have is an InputError when that file is read.
  [[nodiscard]] ShippedData changed(std::string set) const;
  /// The same files, models read with a file that says what unknown operators of an imported
  /// network are like (docs/imports.md); a model that is not an import is then an
  /// InputError.
  [[nodiscard]] ShippedData with_operators(std::string stubs) const;

  [[nodiscard]] Cluster cluster(std::string_view name) const;
  [[nodiscard]] Accelerator accelerator(std::string_view name) const;
  /// Our own format or a Hugging Face config.json.
  [[nodiscard]] ShippedModel model(std::string_view name) const;
  [[nodiscard]] Framework framework(std::string_view name) const;
  /// Laboratories whose published runs were measured (validation/sites.yaml).
  [[nodiscard]] SiteTable sites() const;

  /// Plans that were published (recipes/*.yaml), file by file; none where no such folder ships.
  [[nodiscard]] std::vector<Recipe> recipes() const { return recipes_naming({}); }
  /// Those of files in which all of these names stand, however they are spelled.
  [[nodiscard]] std::vector<Recipe> recipes_naming(const std::vector<std::string>& names) const;

  [[nodiscard]] std::vector<ShippedFile> clusters() const;
  [[nodiscard]] std::vector<ShippedFile> models() const;
  [[nodiscard]] std::vector<ShippedFile> frameworks() const;
  /// Parts of plans that searches take by name (constraints/*.yaml).
  [[nodiscard]] std::vector<ShippedFile> constraints() const;

 private:
  std::filesystem::path directory_;
  std::string set_;
  std::string operators_;
};

/// $PLANSEARCH_DATA, else `packaged` unless it is empty, else share/plansearch next to the
/// directory of the executable, else the source tree the library was built from. InputError when
/// none of them holds the files.
[[nodiscard]] ShippedData find_shipped_data(const std::filesystem::path& packaged);

/// The same for this program. Not one function for all of them: every package lies elsewhere.
[[nodiscard]] static inline ShippedData shipped_data() {
  return find_shipped_data(PLANSEARCH_PACKAGED_DATA);
}

}  // namespace plansearch
