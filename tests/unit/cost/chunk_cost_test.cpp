// SPDX-License-Identifier: Apache-2.0
// Kernels that take a sequence in chunks: FLOPs, waves, chips without a row.
#include "cost/kernels/chunk_cost.hpp"

#include <doctest/doctest.h>

namespace plansearch::chunk_cost_test {
namespace {

Accelerator chip(const std::string& name, double teraflops) {
  Accelerator accelerator;
  accelerator.name = name;
  accelerator.multiprocessors = 100;
  accelerator.memory_bandwidth = Bandwidth(1e12);
  accelerator.peak[static_cast<std::size_t>(DataType::Bf16)] = FlopRate(teraflops * 1e12);
  return accelerator;
}

NamedKernel kernel() {
  NamedKernel k;
  k.name = "delta";
  k.library = "first";
  k.tokens = 64;
  k.flops = {.state = 6, .key = 6, .value = 4, .square = 2.0 / 3};
  const ChunkCurve curve{Seconds(10e-6), Seconds(1e-6), FlopRate(1e14), 1.0};
  k.chips = {{"a", FlopRate(1e15), curve, curve}, {"b", FlopRate(4e15), curve, curve}};
  return k;
}

ChunkShape shape(double batch, double heads, double tokens) {
  return {.batch = batch,
          .heads = heads,
          .key_heads = heads,
          .tokens = tokens,
          .key_size = 128,
          .value_size = 128};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("FLOPs of the chunk form: H (6 N P + 2 C (3 N + 2 P) + 2/3 C C) a token") {
    const double of_head = 6.0 * 128 * 128 + 2.0 * 64 * (3 * 128 + 2 * 128) + 2.0 / 3 * 64 * 64;
    CHECK(chunk_flops(kernel(), shape(2, 16, 4096)).value() ==
          doctest::Approx(2 * 4096 * 16 * of_head));
    NamedKernel mamba = kernel();
    mamba.tokens = 128;
    mamba.flops = {.state = 4, .shared_key = 2, .value = 2};
    ChunkShape s = shape(1, 64, 1000);
    s.key_heads = 8;
    CHECK(chunk_flops(mamba, s).value() ==
          doctest::Approx(1000.0 * (2 * 128 * (8 * 128 + 64 * 128) + 4.0 * 64 * 128 * 128)));
  }

  TEST_CASE("chunks follow each other, heads beyond the multiprocessors run in waves") {
    NamedKernel free = kernel();
    for (ChunkKernelOnChip& on : free.chips) on.forward.rate = FlopRate(0);
    const Accelerator a = chip("a", 1000);
    const auto time = [&](double heads, double tokens) {
      return chunk_time(a, free, shape(1, heads, tokens), Pass::Forward).value();
    };
    CHECK(time(8, 6400) == doctest::Approx(10e-6 + 100 * 1e-6));
    CHECK(time(100, 6400) == doctest::Approx(time(8, 6400)));
    CHECK(time(101, 6400) == doctest::Approx(10e-6 + 200 * 1e-6));
    CHECK(time(8, 6401) == doctest::Approx(10e-6 + 101 * 1e-6));
    ChunkShape joined = shape(1, 8, 64);
    joined.launched = false;
    CHECK(chunk_time(a, free, joined, Pass::Forward).value() == doctest::Approx(1e-6));
    joined.moved = Bytes(1e9);  // a millisecond at the rate of memory
    CHECK(chunk_time(a, free, joined, Pass::Forward).value() == doctest::Approx(1e-3));
  }

  TEST_CASE("a chip without a row runs as the nearest one, by the square root of the peaks") {
    const double known =
        chunk_time(chip("a", 1000), kernel(), shape(1, 8, 6400), Pass::Forward).value();
    const double other =
        chunk_time(chip("c", 250), kernel(), shape(1, 8, 6400), Pass::Forward).value();
    CHECK(other - 10e-6 == doctest::Approx(2 * (known - 10e-6)));
  }

  TEST_CASE("the first row of a name, or that of a library that is asked for") {
    std::vector<NamedKernel> kernels(2, kernel());
    kernels[1].library = "second";
    CHECK(find_kernel(kernels, {}, "delta")->library == "first");
    const std::vector<std::string> asked{"second"};
    CHECK(find_kernel(kernels, asked, "delta")->library == "second");
    CHECK(find_kernel(kernels, asked, "other") == nullptr);
  }
}

}  // namespace plansearch::chunk_cost_test
