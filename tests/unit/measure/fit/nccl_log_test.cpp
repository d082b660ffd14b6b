// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/nccl_log.hpp"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "plansearch/error.hpp"

namespace plansearch::io::nccl_log_test {
namespace {

/// As nccl-tests 2.17 prints it (src/util.cu): two nodes, one GPU each.
const std::string kLog =
    "job 12 on partition gpu\n"
    "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 1 minBytes 0 maxBytes 8192 step: 2(factor) warmup iters: 1 iters: 20 agg "
    "iters: 1 validation: 1 graph: 0 unalign: 0\n"
    "#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid   4711 on     node01 device  0 [0000:07:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid   4712 on     node02 device  0 [0000:07:00] NVIDIA H100 80GB HBM3\n"
    "#\n"
    "#                                                              out-of-place                   "
    " "
    "   in-place          \n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     "
    "time "
    "  algbw   busbw  #wrong \n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             "
    "(us) "
    " (GB/s)  (GB/s)         \n"
    "           0             0     float     sum      -1     0.15    0.00    0.00       0     "
    "0.14 "
    "   0.00    0.00       0\n"
    "     1048576        262144     float     sum      -1    60.25   17.40   17.40       0    "
    "59.90 "
    "  17.51   17.51       0\n"
    "node01:4711:4790 [0] NCCL INFO comm 0x55 rank 0 nranks 2\n"
    "  8589934592    2147483648     float     sum      -1   182300   47.12   47.12       0   "
    "182100 "
    "  47.17   47.17     N/A\n"
    "# Out of bounds values : 0 OK\n"
    "# Avg bus bandwidth    : 32.3 \n"
    "#\n"
    "# Collective test concluded: all_reduce_perf\n";

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

void refuse(const std::string& text, const std::string& why, const std::string& file = "log.txt") {
  try {
    static_cast<void>(parse_nccl_log(text, file));
    FAIL("accepted: " << why);
  } catch (const InputError& error) {
    CHECK_MESSAGE(std::string(error.what()).find(why) != std::string::npos, error.what());
  }
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a log of nccl-tests is read as it was printed") {
    REQUIRE(is_nccl_log(kLog));
    CHECK_FALSE(is_nccl_log("hw,gpus,nodes,collective,bytes,time_us\n"));
    const auto tests = parse_nccl_log(kLog, "log.txt");
    REQUIRE(tests.size() == 1);
    CHECK(tests[0].collective == "all_reduce");
    CHECK(tests[0].device == "NVIDIA H100 80GB HBM3");
    CHECK(tests[0].ranks == 2);
    CHECK(tests[0].nodes == 2);
    REQUIRE(tests[0].times.size() == 2);  // not the message of no bytes
    CHECK(tests[0].times[0].message.value() == 1048576.0);
    CHECK(tests[0].times[0].time.value() == doctest::Approx(60.25e-6));
    CHECK(tests[0].times[1].time.value() == doctest::Approx(0.1823));
    CHECK(tests[0].times[1].line == 16);
    CHECK(parse_nccl_log(kLog + kLog, "log.txt").size() == 2);
  }

  TEST_CASE("older logs: no name, no group, blank columns") {
    std::string old = replaced(kLog, "# Collective test starting: all_reduce_perf\n", "");
    old = replaced(old, "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n", "");
    old = replaced(replaced(old, " Group  0", ""), " Group  0", "");
    for (int row = 0; row < 3; ++row) old = replaced(old, "float     sum      -1", "float");
    CHECK(parse_nccl_log(old, "runs/alltoall_8.txt")[0].collective == "alltoall");
    CHECK(parse_nccl_log(old, "alltoall.txt")[0].times[0].time.value() ==
          doctest::Approx(60.25e-6));
    refuse(old, "does not say which collective", "log.txt");
  }

  TEST_CASE("logs that cannot be trusted are refused") {
    refuse(kLog.substr(0, kLog.find("# Out of bounds")), "before the summary");
    refuse(kLog.substr(0, kLog.find("   182300")), "the row is cut");
    refuse(replaced(kLog, "60.25", "80.25"), "1048576 bytes in 80.25 us are 13.07 GB/s, not 17.40");
    refuse(replaced(kLog, "17.40       0", "17.40       3"), "wrong results");
    refuse(replaced(kLog, "values : 0 OK", "values : 8 FAILED"), "wrong results");
    refuse(replaced(kLog, "NVIDIA H100 80GB HBM3\n#\n", "NVIDIA H200\n#\n"), "mix accelerators");
    refuse(replaced(kLog, "starting: all_reduce_perf", "starting: hypercube_perf"),
           "not a collective that is priced");
    refuse("# nThread 1 nGpus 8\n", "no test with a result");
  }

  TEST_CASE("damaged logs are read or refused, never more") {
    std::mt19937 random(7);
    int refused = 0;
    for (int round = 0; round < 4000; ++round) {
      std::string text = kLog;
      for (int change = 0; change < 1 + round % 4; ++change) {
        const std::size_t at = random() % text.size();
        switch (random() % 4) {
          case 0:
            text.resize(at + 1);
            break;
          case 1:
            text[at] = static_cast<char>(random() % 256);
            break;
          case 2:
            text.erase(at, random() % 40);
            break;
          default:
            text.insert(at, text.substr(random() % text.size(), random() % 60));
            break;
        }
        if (text.empty()) text = "#";
      }
      try {
        for (const NcclTest& test : parse_nccl_log(text, "all_reduce.txt")) {
          REQUIRE(test.ranks >= 2);
          REQUIRE(test.nodes >= 1);
          REQUIRE_FALSE(test.collective.empty());
          for (const NcclTime& time : test.times) {
            REQUIRE(time.time.value() > 0.0);
            REQUIRE(time.message.value() > 0.0);
          }
        }
      } catch (const InputError& error) {
        REQUIRE_FALSE(std::string(error.what()).empty());
        ++refused;
      }
    }
    CHECK(refused > 1000);
  }
}

}  // namespace plansearch::io::nccl_log_test
