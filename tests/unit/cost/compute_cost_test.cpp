// SPDX-License-Identifier: Apache-2.0
#include "cost/kernels/compute_cost.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "plansearch/error.hpp"
#include "support/frozen_hardware.hpp"

namespace plansearch::compute_cost_test {
namespace {

double microseconds(Seconds time) {
  return time.value() * 1e6;
}

/// One multiprocessor per tile, everything but the tiles free of charge.
Accelerator plain_chip() {
  Accelerator chip;
  chip.name = "plain";
  chip.multiprocessors = 100;
  chip.memory_bandwidth = Bandwidth(1e15);
  chip.peak[static_cast<std::size_t>(DataType::Bf16)] = FlopRate(100e12);
  MatmulCurve curve;
  curve.wave_quantisation = 1.0;
  curve.split_traffic = 1e9;  // never split
  chip.kernels.matmul[static_cast<std::size_t>(DataType::Bf16)] = curve;
  chip.kernels.stream.launch = Seconds(3e-6);
  chip.kernels.stream.efficiency = 0.5;
  return chip;
}

AttentionShape causal(double batch, double length, double heads, double kv_heads, double size) {
  return {batch, heads, kv_heads, length, length, size, size, 0.5};
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("matmul times agree with an independent implementation") {
    const test::FrozenHardware frozen;
    for (const auto& row : frozen.times("matmul")) {
      const Accelerator chip = frozen.accelerator(row.inputs[0]);
      const DataType type = parse_data_type(row.inputs[1]).value();
      const MatmulShape shape{1.0, std::stod(row.inputs[2]), std::stod(row.inputs[3]),
                              std::stod(row.inputs[4])};
      CAPTURE(row.inputs[0]);
      CAPTURE(row.inputs[1]);
      CHECK(microseconds(matmul_time(chip, type, shape, Clock::Burst)) ==
            doctest::Approx(row.time_us).epsilon(1e-6));
    }
  }

  TEST_CASE("attention times agree with an independent implementation") {
    const test::FrozenHardware frozen;
    for (const auto& row : frozen.times("attention")) {
      const Accelerator chip = frozen.accelerator(row.inputs[0]);
      const AttentionCurve curve =
          frozen.attention(row.inputs[0], row.inputs[1] + "." + row.inputs[2]);
      const auto at = [&](std::size_t i) { return std::stod(row.inputs[i]); };
      const Pass pass = row.inputs[2] == "forward" ? Pass::Forward : Pass::Backward;
      CHECK(microseconds(attention_time(chip, curve, DataType::Bf16,
                                        causal(at(3), at(4), at(5), at(6), at(7)), pass)) ==
            doctest::Approx(row.time_us).epsilon(1e-6));
    }
  }

  TEST_CASE("a matmul is whole waves of the best tile") {
    // 100 processors of 1 TFLOP/s. 1024 x 1280 = 8 x 10 tiles of 128 x 128: one wave of
    // 2 * 128 * 128 * 1000 FLOP = 32.768 us. 256 x 128 tiles: 40 of them, one wave, 65.5 us.
    // 64 x 64 tiles: 320 of them, four waves of 8.192 us = 32.768 us too.
    const Accelerator chip = plain_chip();
    CHECK(microseconds(matmul_time(chip, DataType::Bf16, {1, 1024, 1280, 1000})) ==
          doctest::Approx(32.768));
    // 101 tiles of 128 x 128 would need two waves (65.5 us); 64 x 64: 5 waves = 40.96 us.
    CHECK(microseconds(matmul_time(chip, DataType::Bf16, {101, 128, 128, 1000})) ==
          doctest::Approx(40.96));
  }

  TEST_CASE("rows that are no multiple of 16 bytes are slow, whatever the tokens") {
    const auto aligned = [&](DataType type, double tokens, double n, double k) {
      return rows_of(type, {1.0, tokens, n, k}) == Rows::Aligned;
    };
    // 16 bytes are 8 elements of bf16, 16 of fp8, 32 of fp4, 4 of fp32; scales of blocks lie apart.
    CHECK(aligned(DataType::Bf16, 1023.0, 50304.0, 768.0));
    CHECK_FALSE(aligned(DataType::Bf16, 1024.0, 50257.0, 768.0));
    CHECK_FALSE(aligned(DataType::Bf16, 1024.0, 50304.0, 772.0));
    CHECK_FALSE(aligned(DataType::Fp8, 1024.0, 50304.0, 776.0));
    CHECK(aligned(DataType::Mxfp8, 1024.0, 50304.0, 784.0));
    CHECK_FALSE(aligned(DataType::Nvfp4, 1024.0, 50304.0, 784.0));
    CHECK(aligned(DataType::Fp32, 1024.0, 50304.0, 772.0));
    // A vocabulary in four slices, the last one short: 50257 / 4 is 12565 columns on a rank.
    CHECK_FALSE(aligned(DataType::Bf16, 1024.0, 50257.0 / 4.0, 768.0));
    // The kernel takes three times as long off the vectors, its launch does not.
    Accelerator chip = plain_chip();
    MatmulCurve& curve = *chip.kernels.matmul[static_cast<std::size_t>(DataType::Bf16)];
    curve.unaligned_rows = 3.0;
    curve.launch = Seconds(5e-6);
    const MatmulShape shape{1.0, 2048.0, 1024.0, 1000.0};
    const auto time = [&](Rows rows) {
      return microseconds(matmul_time(chip, DataType::Bf16, shape, Clock::Burst, rows));
    };
    CHECK(time(Rows::Unaligned) - 5.0 ==
          doctest::Approx(3.0 * (time(Rows::Aligned) - 5.0)).epsilon(1e-9));
  }

  TEST_CASE("the sustained clock is the slower one and long bursts come close to it") {
    const test::FrozenHardware frozen;
    const Accelerator chip = frozen.accelerator("H100-SXM5-80GB");
    const auto ratio = [&](const MatmulShape& shape) {
      return matmul_time(chip, DataType::Bf16, shape) /
             matmul_time(chip, DataType::Bf16, shape, Clock::Burst);
    };
    CHECK(ratio({1, 8192, 8192, 8192}) > 1.05);
    CHECK(ratio({1, 8192, 8192, 8192}) < 1.0 + 0.1664);
    CHECK(ratio({1, 65536, 65536, 65536}) == doctest::Approx(1.0).epsilon(0.01));
  }

  TEST_CASE("kernels never get faster with more work or less machine") {
    const test::FrozenHardware frozen;
    for (const char* name : {"A100-SXM4-80GB", "H100-SXM5-80GB", "B200-SXM"}) {
      const Accelerator chip = frozen.accelerator(name);
      Accelerator wider = chip;
      wider.memory_bandwidth *= 2.0;
      for (double m = 128; m <= 65536; m *= 2) {
        for (double n = 128; n <= 16384; n *= 4) {
          const MatmulShape shape{1, m, n, 4096};
          const Seconds time = matmul_time(chip, DataType::Bf16, shape);
          CHECK(matmul_time(chip, DataType::Bf16, {1, m, n, 8192}) >= time);
          CHECK(matmul_time(chip, DataType::Bf16, {2, m, n, 4096}) >= time);
          CHECK(matmul_time(wider, DataType::Bf16, shape) <= time);
          CHECK(time.value() >= 2 * m * n * 4096 / chip.peak[4]->value());
        }
      }
      const AttentionCurve curve = frozen.attention(name, "serving.forward");
      Seconds last;
      for (double length = 128; length <= 131072; length *= 2) {
        const Seconds time = attention_time(chip, curve, DataType::Bf16,
                                            causal(1, length, 16, 16, 128), Pass::Forward);
        CHECK(time >= last);
        last = time;
      }
    }
  }

  TEST_CASE("attention without a mask does twice the work of causal attention") {
    const test::FrozenHardware frozen;
    const Accelerator chip = frozen.accelerator("H100-SXM5-80GB");
    const AttentionCurve curve = frozen.attention("H100-SXM5-80GB", "flash3.forward");
    AttentionShape shape = causal(4, 32768, 32, 32, 128);
    const Seconds half = attention_time(chip, curve, DataType::Bf16, shape, Pass::Forward);
    shape.useful_fraction = 1.0;
    CHECK(attention_time(chip, curve, DataType::Bf16, shape, Pass::Forward) / half ==
          doctest::Approx(2.0).epsilon(0.03));
  }

  TEST_CASE("memory-bound kernels: launches and bytes") {
    // 2 launches of 3 us; 1e15 B/s * 0.5: 5e9 B take 10 us.
    CHECK(microseconds(stream_time(plain_chip(), Bytes(5e9), 2)) == doctest::Approx(16.0));
  }

  TEST_CASE("a format without a rate is refused and the others are named") {
    const Accelerator chip = plain_chip();
    CHECK_THROWS_WITH_AS((void)matmul_time(chip, DataType::Fp8, {1, 8, 8, 8}),
                         "plain has no fp8 rate", InputError);
    CHECK_THROWS_AS(
        (void)attention_time(chip, DataType::Bf16, causal(1, 1, 1, 1, 1), Pass::Forward),
        InputError);
  }
}

}  // namespace plansearch::compute_cost_test
