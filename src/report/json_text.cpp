// SPDX-License-Identifier: Apache-2.0
#include "report/json_text.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "plansearch/error.hpp"

namespace plansearch {
namespace {

using Json = nlohmann::ordered_json;

/// Goes down to the first number that is not finite and names it on the way back.
bool find_infinite(const Json& value, std::string& path) {
  if (value.is_number_float()) return !std::isfinite(value.get<double>());
  if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (!find_infinite(value[i], path)) continue;
      path = fmt::format("[{}]{}", i, path);
      return true;
    }
  }
  if (value.is_object()) {
    for (const auto& [key, item] : value.items()) {
      if (!find_infinite(item, path)) continue;
      path = fmt::format(".{}{}", key, path);
      return true;
    }
  }
  return false;
}

}  // namespace

void require_finite(const Json& answer) {
  std::string path;
  if (!find_infinite(answer, path)) return;
  if (path.starts_with('.')) path.erase(0, 1);
  throw InputError(
      {}, fmt::format("the answer has no finite {}", path),
      "a number of the profile, the model, the framework or the table is far from that "
      "of any machine");
}

std::string json_text(const Json& answer, int indent) {
  require_finite(answer);
  return answer.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace plansearch
