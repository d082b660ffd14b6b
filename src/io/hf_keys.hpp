// SPDX-License-Identifier: Apache-2.0
// The keys of one config.json, with the defaults of its family.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/document.hpp"

namespace plansearch::io {

/// Keys of nested maps are written with dots ("attn_config.kv_n_heads").
class HfKeys {
 public:
  /// `defaults` are those of the family: the values transformers takes for keys a file lacks.
  HfKeys(Node config, std::optional<Node> defaults);

  /// The value of the first spelling that the file has, else that the defaults have. Absent where
  /// there is none or it is null.
  [[nodiscard]] std::optional<Node> find(const std::vector<std::string>& spellings) const;
  [[nodiscard]] std::optional<Node> find(const std::string& key) const;
  /// What the file itself has, nulls included, in no order of meaning.
  [[nodiscard]] const std::map<std::string, Node>& written() const { return written_; }
  /// Another file's value in place of this one's.
  void replace(const std::string& key, const Node& value);
  [[nodiscard]] const Node& root() const { return config_; }

 private:
  Node config_;
  std::map<std::string, Node> written_;
  std::map<std::string, Node> defaults_;
};

}  // namespace plansearch::io
