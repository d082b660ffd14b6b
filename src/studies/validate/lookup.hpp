// SPDX-License-Identifier: Apache-2.0
// Profiles that the rows of a table name: each is read once, however many rows name it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "plansearch/error.hpp"

namespace plansearch {

/// A wrong file is the user's to mend; anything else makes a row inexpressible, and is its reason.
[[nodiscard]] inline bool is_of_row(const InputError& error) {
  return error.where().file.empty();
}

[[nodiscard]] inline InputError refusal(const std::string& reason) {
  return InputError({}, reason);
}

template <typename T>
class Lookup {
 public:
  explicit Lookup(std::function<T(std::string_view)> find) : find_(std::move(find)) {}

  /// InputError for an unknown name, the same for every row that has it.
  const std::shared_ptr<const T>& get(const std::string& name) {
    auto known = found_.find(name);
    if (known == found_.end()) known = found_.emplace(name, look(name)).first;
    if (const auto* unknown = std::get_if<InputError>(&known->second)) throw InputError(*unknown);
    return std::get<std::shared_ptr<const T>>(known->second);
  }

 private:
  using Found = std::variant<std::shared_ptr<const T>, InputError>;

  Found look(const std::string& name) const {
    try {
      return std::make_shared<const T>(find_(name));
    } catch (const InputError& error) {
      if (!is_of_row(error)) throw;
      return error;
    }
  }

  std::function<T(std::string_view)> find_;
  std::map<std::string, Found> found_;
};

}  // namespace plansearch
