// SPDX-License-Identifier: Apache-2.0
// Kernels of another architecture: taken as fractions of its peaks, without what they were
// measured to be off by there.
#include <doctest/doctest.h>

#include <string>

#include "unit/io/chip_file.hpp"

namespace plansearch::foreign_kernels_test {

namespace {

const MatmulCurve& bf16(const Accelerator& chip) {
  return *chip.kernels.matmul[static_cast<std::size_t>(DataType::Bf16)];
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("kernels of another architecture have its fractions and not its residuals") {
    const Accelerator donor = io::load_accelerator("a100-sxm4-80gb", test::shipped_hardware());
    REQUIRE(bf16(donor).residual);
    const Accelerator same = test::chip_with("kernels: {like: a100-sxm4-80gb}\n");
    CHECK_FALSE(same.foreign_kernels);
    CHECK(bf16(same).residual.has_value());
    const Accelerator other =
        test::chip_with("foreign_kernels: true\nkernels: {like: a100-sxm4-80gb}\n");
    CHECK(bf16(other).flop_efficiency == bf16(donor).flop_efficiency);
    CHECK_FALSE(bf16(other).residual.has_value());
    // A datasheet alone does not say whose kernels are like its own.
    const Accelerator datasheet = test::chip_with("");
    CHECK(datasheet.foreign_kernels);
    CHECK_FALSE(bf16(datasheet).residual.has_value());
  }

  TEST_CASE("a foreign chip's own measured products keep what they are off by") {
    const Accelerator chip = test::chip_with(
        "foreign_kernels: true\nkernels:\n  like: a100-sxm4-80gb\n"
        "  matmul: {bf16: {residual: {p10: -0.02, p50: 0, p90: 0.03}}}\n");
    REQUIRE(bf16(chip).residual);
    CHECK(bf16(chip).residual->p90 == 0.03);
  }
}

}  // namespace plansearch::foreign_kernels_test
