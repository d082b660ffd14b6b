// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/kernel_fit.hpp"

#include <doctest/doctest.h>

#include "cost/collective/collective_cost.hpp"
#include "io/hardware/profile_reader.hpp"
#include "unit/evidence/run_tables.hpp"

namespace plansearch::measured_links_test {
namespace {

KernelTable messages(const std::string& rows) {
  const std::string text = "hw,gpus,nodes,collective,bytes,time_us\n" + rows;
  KernelTable table{"mine.csv", TableKind::Collective, io::CsvTable::parse(text, "mine.csv"), {}};
  for (const io::CsvRow& row : table.table.rows()) table.lines.push_back(row.line);
  return table;
}

KernelFit start() {
  KernelFit fit;
  fit.cluster = io::load_cluster("dgx-h100", std::vector{test::shipped("hardware_profiles")});
  return fit;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("times are kept by collective and ranks, and predicted as they are") {
    KernelFit fit = start();
    // The last time of the middle pair falls: both become sqrt(40 x 30).
    CHECK(keep_measured_times({messages("x,2,1,all_reduce,1024,2\nx,2,1,all_reduce,16384,40\n"
                                        "x,2,1,all_reduce,65536,30\nx,2,1,all_reduce,1048576,500\n"
                                        "x,2,1,all_gather,1024,2\nx,2,1,all_gather,4096,3\n")},
                              fit));
    const auto& measured = fit.cluster.tiers[0].link().measured;
    REQUIRE(measured.size() == 1);  // two sizes are no table
    CHECK(measured[0].kind == "all-reduce");
    const auto us = [&](double bytes) {
      return collective_cost(fit.cluster, CommunicationKind::AllReduce, Bytes(bytes), {2, 1})
                 .time.value() *
             1e6;
    };
    CHECK(us(16384.0) == doctest::Approx(34.641));
    CHECK(us(65536.0) == doctest::Approx(34.641));
    CHECK(us(1048576.0) == doctest::Approx(500.0));
    CHECK(fit.tiers == std::vector<std::string>{"nvlink"});
    CHECK(fit.groups.at(0).rows == 4);
  }

  TEST_CASE("a size that lies on the line of its neighbours is predicted without error") {
    KernelFit fit = start();
    CHECK(keep_measured_times({messages("x,2,1,send_recv,1024,2\nx,2,1,send_recv,4096,4\n"
                                        "x,2,1,send_recv,16384,8\nx,2,1,send_recv,65536,16\n")},
                              fit));
    CHECK(fit.groups.at(0).held_out.value().error < 1e-9);
  }

  TEST_CASE("without three sizes inside a node nothing changes") {
    KernelFit fit = start();
    CHECK_FALSE(keep_measured_times({messages("x,16,2,all_reduce,1024,2\nx,16,2,all_reduce,4096,4\n"
                                              "x,16,2,all_reduce,16384,8\n")},
                                    fit));
    CHECK(fit.groups.empty());
    CHECK(fit.cluster.tiers[0].link().measured.empty());
  }
}

}  // namespace plansearch::measured_links_test
