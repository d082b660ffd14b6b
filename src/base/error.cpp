// SPDX-License-Identifier: Apache-2.0
#include "plansearch/error.hpp"

#include <fmt/format.h>

#include "base/names.hpp"

namespace plansearch {

std::string InputError::formatted() const {
  std::string place;
  if (!where_.file.empty()) place = printable(where_.file) + ":";
  if (!where_.file.empty() && where_.line > 0) {
    place += fmt::format("{}:{}:", where_.line, where_.column);
  }
  if (!place.empty()) place += " ";
  std::string text = fmt::format("{}error: {}", place, printable(what()));
  if (!hint_.empty()) text += "\nhint: " + printable(hint_);
  return text;
}

InputErrors::InputErrors(std::vector<InputError> all)
    : InputError(all.at(0).where(), all.front().what(), all.front().hint()), all_(std::move(all)) {}

std::string InputErrors::formatted() const {
  std::string text;
  for (const InputError& error : all_) {
    if (!text.empty()) text += "\n";
    text += error.formatted();
  }
  return text;
}

void fail_check(const char* expression, const char* file, int line) {
  throw InternalError(fmt::format("{}:{}: broken invariant: {}", file, line, expression));
}

}  // namespace plansearch
