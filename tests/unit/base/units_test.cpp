// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "base/units.hpp"

namespace plansearch::units_test {

TEST_SUITE("unit") {
  TEST_CASE("units: decimal and binary sizes differ") {
    CHECK(parse_quantity<Bytes>("80 GiB") == Bytes(80 * 1073741824.0));
    CHECK(parse_quantity<Bytes>("80GB") == Bytes(80e9));
    CHECK(parse_quantity<Bytes>("1.5 kB") == Bytes(1500));
    CHECK(parse_quantity<Bytes>("2 TiB") == Bytes(2199023255552.0));
  }

  TEST_CASE("units: bits are an eighth of bytes") {
    CHECK(parse_quantity<Bandwidth>("25 GB/s") == Bandwidth(25e9));
    CHECK(parse_quantity<Bandwidth>("200 Gbit/s") == Bandwidth(25e9));
    CHECK(parse_quantity<Bandwidth>("200 Gb/s") == Bandwidth(25e9));
    CHECK(parse_quantity<Bandwidth>("1 GiB/s") == Bandwidth(1073741824.0));
  }

  TEST_CASE("units: times, rates, power and price") {
    CHECK(parse_quantity<Seconds>("4.2 us") == Seconds(4.2 * 1e-6));
    CHECK(parse_quantity<Seconds>("-3 ms") == Seconds(-3 * 1e-3));
    CHECK(parse_quantity<FlopRate>("312 TFLOP/s") == FlopRate(312e12));
    CHECK(parse_quantity<FlopRate>("1.2 EFLOP/s") == FlopRate(1.2e18));
    CHECK(parse_quantity<Watts>("400 W") == Watts{400});
    CHECK(parse_quantity<UsdPerHour>("4.10 $/h") == UsdPerHour{4.10});
  }

  TEST_CASE("counts: as people write them") {
    CHECK(parse_count("4096") == 4096);
    CHECK(parse_count("-2") == -2);
    CHECK(parse_count("1e6") == 1'000'000);
    CHECK(parse_count("8,192") == 8192);
    CHECK(parse_count("128k") == 131'072);
    CHECK(parse_count("4M") == 4'194'304);
    CHECK(parse_count("0.5k") == 512);
    for (const char* text :
         {"", "k", "1.5", "8k ", "1,00", "1,0000", ",100", "1e30", "eight", "8kk"}) {
      CAPTURE(text);
      CHECK_FALSE(parse_count(text).has_value());
    }
    CHECK(without_grouping("1,000B") == "1000B");
    CHECK(without_grouping("1,000,000") == "1000000");
    CHECK(without_grouping("1,24") == "1,24");
  }

  TEST_CASE("units: what is malformed, without unit or not finite is refused") {
    for (const char* text : {"", " ", "80", "GiB", "80 gib", "80 GiB/s", "80 Gib", "1e999 GiB",
                             "nan GiB", "inf GiB", "1 2 GiB", "0x10 GiB", "80 GiB x", "--1 GiB",
                             "1e308 PiB", "80,5 GiB", "1e-300 GiB", "4.9e-324 GiB", "1e25 GiB"}) {
      CAPTURE(text);
      CHECK_FALSE(parse_quantity<Bytes>(text).has_value());
    }
    for (const char* text : {"25", "25 GB", "25 GFLOP/s", "25 /s", "25 s", "nan GB/s"}) {
      CAPTURE(text);
      CHECK_FALSE(parse_quantity<Bandwidth>(text).has_value());
    }
    CHECK_FALSE(parse_quantity<FlopRate>("312 TFLOPS/s").has_value());
    CHECK_FALSE(parse_number("1 s").has_value());
    CHECK(parse_number(" 1e-3 ") == 1e-3);
  }

  TEST_CASE("units: text has three significant digits and the best prefix") {
    CHECK(to_text(Seconds(0.0184)) == "18.4 ms");
    CHECK(to_text(Seconds(0.0009996)) == "1.00 ms");
    CHECK(to_text(Seconds(20.8)) == "20.8 s");
    CHECK(to_text(Seconds(12345.0)) == "12345 s");
    CHECK(to_text(Seconds(0.0)) == "0 s");
    CHECK(to_text(Seconds(-2e-6)) == "-2.00 us");
    CHECK(to_text(Seconds(2e-13)) == "0.0002 ns");
    CHECK(to_text(Bytes(61.2 * 1073741824.0)) == "61.2 GiB");
    CHECK(to_text(Bytes(512)) == "512 B");
    CHECK(to_text(Bytes(1023.9 * 1024.0)) == "1.00 MiB");
    CHECK(to_text(Bytes(1000.0 * 1024.0)) == "1000 KiB");
    CHECK(to_text(Bandwidth(25e9)) == "25.0 GB/s");
    CHECK(to_text(FlopRate(312e12)) == "312 TFLOP/s");
    CHECK(to_text(FlopRate(999.6e12)) == "1.00 PFLOP/s");
  }
}

}  // namespace plansearch::units_test
