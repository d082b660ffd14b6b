// SPDX-License-Identifier: Apache-2.0
#include "plansearch/dispatcher.hpp"

#include <algorithm>

#include "base/names.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kAny = "any";  // what a search finds

std::string plain(std::string_view name) {
  std::string word = canonical_name(name);
  std::erase(word, '-');
  return word;
}

}  // namespace

const std::vector<std::string>& dispatcher_names() {
  static const std::vector<std::string> kNames{"own", "all-to-all", "all-gather", "deepep",
                                               "hybridep"};
  return kNames;
}

std::string_view to_text(DispatcherId id) {
  if (id == kAnyDispatcher) return kAny;
  return dispatcher_names().at(static_cast<std::size_t>(id));
}

std::optional<DispatcherId> find_dispatcher(std::string_view word) {
  if (word == kAny) return kAnyDispatcher;
  const auto& names = dispatcher_names();
  const auto found = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
    return plain(name) == plain(word);
  });
  if (found == names.end()) return std::nullopt;
  return static_cast<DispatcherId>(found - names.begin());
}

}  // namespace plansearch
