// SPDX-License-Identifier: Apache-2.0
#include "plansearch/framework_constants.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "io/framework/framework_reader.hpp"
#include "plansearch/error.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::framework_constants_test {
namespace {

/// A framework file with every constant but one; the constant of row i is i, switches are on.
Framework read_without(std::string_view left_out) {
  std::string constants;
  double number = 0.0;
  for (const ConstantRow& row : framework_constant_rows()) {
    number += 1.0;
    FrameworkConstants where;
    const ConstantField field = row.field(where);
    if (row.name == left_out) continue;
    const bool time = std::holds_alternative<Seconds*>(field);
    const bool data = std::holds_alternative<Bytes*>(field);
    const bool on = std::holds_alternative<bool*>(field);
    constants += fmt::format("  {}: {}{}\n", row.name, on ? 1.0 : number,
                             time   ? " s"
                             : data ? " B"
                                    : "");
  }
  const test::TemporaryDirectory directory;
  return io::load_framework(
      directory
          .write("all.yaml",
                 "schema: plansearch/framework/v1\nname: all\n"
                 "rank_order: [data]\n"
                 "precision:\n  bf16: {matmul: bf16, activation: bf16, parameter: bf16, "
                 "gradient: none, main_gradient: fp32, master: fp32, "
                 "moment: fp32, reduction: bf16, gather: bf16}\n"
                 "constants:\n" +
                     constants)
          .string(),
      {});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a framework file that lacks any constant is refused with its name") {
    for (const ConstantRow& row : framework_constant_rows()) {
      try {
        static_cast<void>(read_without(row.name));
        FAIL_CHECK(row.name << " is never missed");
      } catch (const InputError& error) {
        CHECK(std::string(error.what()).find(fmt::format("'{}'", row.name)) != std::string::npos);
      }
    }
  }

  TEST_CASE("every constant of a file is kept in a field of its own") {
    FrameworkConstants constants = read_without("").constants;
    double number = 0.0;
    for (const ConstantRow& row : framework_constant_rows()) {
      number += 1.0;
      INFO(row.name);
      const ConstantField field = row.field(constants);
      if (const auto* value = std::get_if<double*>(&field)) CHECK(**value == number);
      if (const auto* value = std::get_if<Seconds*>(&field)) CHECK((*value)->value() == number);
      if (const auto* value = std::get_if<Bytes*>(&field)) CHECK((*value)->value() == number);
      if (const auto* value = std::get_if<bool*>(&field)) CHECK(**value);
    }
  }

  TEST_CASE("contention stands in the order of the overlap classes") {
    FrameworkConstants constants;
    int found = 0;
    for (std::size_t i = 0; i < kOverlapCount; ++i) {
      const std::string name = fmt::format("contention_{}", to_text(static_cast<Overlap>(i)));
      for (const ConstantRow& row : framework_constant_rows()) {
        if (row.name != name) continue;
        CHECK(std::get<double*>(row.field(constants)) == &constants.contention[i]);
        ++found;
      }
    }
    CHECK(found == static_cast<int>(kOverlapCount));
  }
}

}  // namespace plansearch::framework_constants_test
