// SPDX-License-Identifier: Apache-2.0
// The message that a wrong file earns, and what it says.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "plansearch/error.hpp"

namespace plansearch::test {

/// Every InputError that `read` throws, as text; "no error" where it throws none.
template <typename Read>
[[nodiscard]] std::string message_of(const Read& read) {
  try {
    static_cast<void>(read());
  } catch (const InputErrors& errors) {
    return errors.formatted();
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "no error";
}

/// Whether the part is in the message, which is shown where it is not.
[[nodiscard]] inline bool says(const std::string& message, const std::string& part) {
  const bool found = message.find(part) != std::string::npos;
  if (!found) MESSAGE(message);
  return found;
}

}  // namespace plansearch::test
