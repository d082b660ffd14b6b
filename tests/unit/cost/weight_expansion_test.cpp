// SPDX-License-Identifier: Apache-2.0
// Traffic, memory and launches of weights that are expanded in front of their products, by hand.
#include <doctest/doctest.h>

#include "cost/kernels/compute_cost.hpp"

namespace plansearch::weight_expansion_test {

TEST_CASE("weight_expansion: one kernel reads what is kept and writes what is multiplied") {
  // 8 bits and 4 bytes per 256 elements; 2 bytes of bf16.
  const WeightExpansion int8 = weight_expansion(DataType::Int8, DataType::Bf16);
  CHECK(int8.calls == 1);
  CHECK(int8.moved.value() == doctest::Approx(1.0 + 4.0 / 256 + 2.0));
  CHECK(int8.peak.value() == doctest::Approx(2.0));
  CHECK_FALSE(int8.kept_for_backward);
  // 4 bits, 8 bits per 64 elements, 32 bits per 256 of those.
  const WeightExpansion nf4 = weight_expansion(DataType::Nf4, DataType::Fp32);
  CHECK(nf4.calls == 1);
  CHECK(nf4.moved.value() == doctest::Approx(0.5 + 1.0 / 64 + 4.0 / (64 * 256) + 4.0));
}

TEST_CASE(
    "weight_expansion: tensor operations move bytes and words, and autograd keeps the result") {
  // AutoGPTQ's QuantLinear.forward on one group of 128 values: 64 bytes of weights, 2 of the scale,
  // 1/2 of the zero point are read; a shift writes 512, a cast reads them and writes 128, a mask
  // and a difference read and write 128 each, a product reads 128 and writes 256 in fp16.
  const double group = 66.5 + 512 + (512 + 128) + 2 * 128 + 2 * 128 + (128 + 256);
  const WeightExpansion int4 = weight_expansion(DataType::Int4, DataType::Fp16);
  CHECK(int4.moved.value() == doctest::Approx(group / 128));
  CHECK(int4.peak.value() == doctest::Approx(4.0 + 1.0));
  CHECK(int4.kept_for_backward);
  CHECK(int4.calls == 1);
}

TEST_CASE("weight_expansion: nothing where products read what is kept") {
  const WeightExpansion none = weight_expansion(DataType::Fp8, DataType::Fp8);
  CHECK(none.calls == 0);
  CHECK(none.moved.value() == 0.0);
  CHECK(none.peak.value() == 0.0);
}

}  // namespace plansearch::weight_expansion_test
