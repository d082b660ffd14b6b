// SPDX-License-Identifier: Apache-2.0
// What the rows of a table name: read once, however many rows name it.
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

/// What was found, or why the name is unknown.
template <typename T>
using Found = std::variant<std::shared_ptr<const T>, std::string>;

template <typename T>
class Lookup {
 public:
  explicit Lookup(std::function<T(std::string_view)> find) : find_(std::move(find)) {}

  const Found<T>& get(const std::string& name) {
    const auto known = found_.find(name);
    if (known != found_.end()) return known->second;
    return found_.emplace(name, look(name)).first->second;
  }

 private:
  Found<T> look(const std::string& name) const {
    try {
      return std::make_shared<const T>(find_(name));
    } catch (const InputError& error) {
      // A wrong file is the user's to mend; only an unknown name makes a row inexpressible.
      if (!error.where().file.empty()) throw;
      return std::string(error.what());
    }
  }

  std::function<T(std::string_view)> find_;
  std::map<std::string, Found<T>> found_;
};

}  // namespace plansearch
