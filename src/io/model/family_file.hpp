// SPDX-License-Identifier: Apache-2.0
// Files plansearch/family/v1: how the keys of a Hugging Face config.json become the fields of a
// model file. docs/models.md says what each key means.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/document/document.hpp"

namespace plansearch::io {

/// The keys of one config.json, with the defaults of its family. Those of nested maps are written
/// with dots ("attn_config.kv_n_heads").
class HfKeys {
 public:
  /// `defaults` are those of the family: the values transformers takes for keys a file lacks.
  HfKeys(Node config, std::optional<Node> defaults);

  /// The value of the first spelling that the file has, else that the defaults have. Absent where
  /// there is none or it is null.
  [[nodiscard]] std::optional<Node> find(const std::vector<std::string>& spellings) const;
  [[nodiscard]] std::optional<Node> find(const std::string& key) const;
  /// The keys of the file itself, nulls included; their order has no meaning.
  [[nodiscard]] const std::map<std::string, Node>& written() const { return written_; }
  /// Another file's value in place of this one's.
  void replace(const std::string& key, const Node& value);
  [[nodiscard]] const Node& root() const { return config_; }

 private:
  Node config_;
  std::map<std::string, Node> written_;
  std::map<std::string, Node> defaults_;
};

/// The key of a configuration of diffusers that names its class, and so its family.
inline constexpr std::string_view kClassName = "_class_name";

/// The key under which `--set model.family=FILE` names a file in place of the one that ships.
inline constexpr std::string_view kOwnFamily = "family";

/// The values of `model_type` a directory of family files understands, sorted.
[[nodiscard]] std::vector<std::string> known_families(const std::filesystem::path& directory);

/// The family of that `model_type` with everything it takes over from those it is `like`.
/// An undescribed family is an InputError at `type`, the node that names it.
[[nodiscard]] Document read_family(const std::string& model_type,
                                   const std::filesystem::path& directory, const Node& type);

/// A family file of the user, which may be `like` one of the directory.
[[nodiscard]] Document read_family_file(const std::filesystem::path& file,
                                        const std::filesystem::path& directory);

/// Refuses `architectures` of a configuration, a list of classes, of which the family describes
/// none. The class, where it has no head and is described with one; else nothing.
[[nodiscard]] std::string require_described(const Node& classes, const Node& rules,
                                            const std::filesystem::path& directory);

/// Whether a map of a family file says where a value comes from; otherwise it is a section.
[[nodiscard]] bool is_rule(const RawValue& map);

/// The fields of a section of the family: of the model, or the dimensions or copies of its graph.
/// Missing keys, unknown values and keys with an undescribed effect on the network are errors;
/// `family` names the family in them.
[[nodiscard]] RawValue apply_family(const Node& rules, const HfKeys& keys,
                                    const std::string& family, std::string_view section = "model");

/// The graph file of a family that names one (`graph`), as a map without schema, name and source:
/// with the family's `dims` and `copies` in it, then with `dims` and `seq_len` of the configuration.
[[nodiscard]] RawValue filled_template(const Node& rules, const HfKeys& keys,
                                       const std::string& family);

/// Keys of the configuration that no rule of the family knows, sorted. Null ones say nothing.
[[nodiscard]] std::vector<std::string> unknown_keys(const Node& rules, const HfKeys& keys);

}  // namespace plansearch::io
