// SPDX-License-Identifier: Apache-2.0
// Two kinds of failure that are exceptions: wrong input (with its place and remedy) and a broken
// invariant. "This plan cannot run" is neither: it is a value (plansearch/plan/infeasible.hpp).
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace plansearch {

/// A place in a file the user wrote; line and column count from 1. A line of 0 means the whole
/// file, an empty file means the command line.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;
  bool operator==(const SourceLocation&) const = default;
};

/// Wrong input. Printed as "file:line:col: error: message" and "hint: remedy"; exit code 2.
class InputError : public std::runtime_error {
 public:
  InputError(SourceLocation where, const std::string& message, std::string hint = {})
      : std::runtime_error(message), where_(std::move(where)), hint_(std::move(hint)) {}
  [[nodiscard]] const SourceLocation& where() const { return where_; }
  [[nodiscard]] const std::string& hint() const { return hint_; }
  /// "file:line:col: error: message\nhint: ..." without a trailing newline.
  [[nodiscard]] virtual std::string formatted() const;

 private:
  SourceLocation where_;
  std::string hint_;
};

/// A step has more time or more pieces than can be simulated. A given plan with such a step is
/// wrong input; in a search it is one plan that cannot be priced.
class SimulationLimit : public InputError {
 public:
  SimulationLimit(const std::string& message, std::string hint)
      : InputError({}, message, std::move(hint)) {}
};

/// Several wrong inputs; as one it is the first of them.
class InputErrors : public InputError {
 public:
  /// Takes at least one error.
  explicit InputErrors(std::vector<InputError> all);
  [[nodiscard]] const std::vector<InputError>& all() const { return all_; }
  /// One after the other.
  [[nodiscard]] std::string formatted() const override;

 private:
  std::vector<InputError> all_;
};

/// A broken invariant of the program itself; exit code 1.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* expression, const char* file, int line);

}  // namespace plansearch

/// Throws InternalError when the invariant does not hold.
#define PLANSEARCH_CHECK(expression) \
  ((expression) ? static_cast<void>(0) : ::plansearch::fail_check(#expression, __FILE__, __LINE__))
