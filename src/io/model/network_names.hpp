// SPDX-License-Identifier: Apache-2.0
// Networks that people know by name and that the sizes of a table do not describe.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace plansearch::io {

/// `names` of _unsupported.yaml in a directory of family files: what networks of each family are
/// called. Empty where there is no such file.
class NetworkNames {
 public:
  NetworkNames() = default;
  explicit NetworkNames(const std::filesystem::path& families);

  /// The reason why the network of that name is not what its number of layers, width and heads say;
  /// empty where nothing is known of it. A name counts wherever it stands in `label`, as a whole
  /// word; "glm-5" is also "GLM-5.2".
  [[nodiscard]] std::string reason_against(std::string_view label) const;
  /// The family of the network of that name; empty as above.
  [[nodiscard]] std::string family_of(std::string_view label) const;

 private:
  struct Entry {
    std::vector<std::string> words;  ///< of a name
    std::string family;
    std::string reason;
  };
  [[nodiscard]] const Entry* find(std::string_view label) const;

  std::vector<Entry> entries_;
};

/// Shorter forms of the name of a network, without the words of _variants.yaml, versions and dates
/// around it: "llama-3.1-8b" of "meta-llama-3.1-8b-instruct". The longest first, the name left out.
[[nodiscard]] std::vector<std::string> plainer_names(const std::string& name,
                                                     const std::filesystem::path& families);

}  // namespace plansearch::io
