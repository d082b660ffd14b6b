// SPDX-License-Identifier: Apache-2.0
#include "evidence/validate/site_fit.hpp"

#include <doctest/doctest.h>

#include "evaluate/answer/site_population.hpp"
#include "unit/evidence/run_tables.hpp"

namespace plansearch::site_errors_test {
namespace {

MeasuredSite site(const char* name, const char* laboratory, double factor) {
  return {.name = name,
          .laboratory = laboratory,
          .sources = {name},
          .rows = 10,
          .factor = factor,
          .spread = 0.1};
}

const SiteTable& three_sites() {
  static const SiteTable kSites{site("one", "A", 1.0), site("two", "B", 1.2),
                                site("three", "C", 1.5)};
  return kSites;
}

RunRecord measured(const char* source, const char* seconds) {
  return test::run_of({{"source", source}, {"step_time_s", seconds}});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("a row's site is its column, else that of its source; empty means typical") {
    const RunSites sites(three_sites(), "");
    const Cluster cluster = test::shipped_profiles().cluster("dgx-h100");
    const Framework framework = test::shipped_profiles().framework("megatron");
    const RowSites by_source = sites.of(measured("two: Table 1", "1"), cluster, framework);
    CHECK(by_source.name == "two");
    CHECK(by_source.own == own_site(three_sites()[1], population_of(three_sites())));
    CHECK(by_source.answer == typical_site(population_of(three_sites())));
    CHECK(by_source.left_out == typical_site(population_of(three_sites(), "B")));
    const RowSites unknown = sites.of(measured("elsewhere", "1"), cluster, framework);
    CHECK(unknown.name.empty());
    CHECK_FALSE(unknown.own.has_value());
    CHECK(unknown.left_out == unknown.typical);
  }

  TEST_CASE("a row that names its site is answered for it, whatever the command line says") {
    const io::CsvTable table = io::CsvTable::parse(
        "id,source,hw,gpus,model,mlp,layers,hidden,heads,seq_len,global_batch,micro_batch,"
        "step_time_s,site\n"
        "a,two,dgx-h100,8,m,gelu,2,64,4,128,8,1,1,three\n"
        "b,two,dgx-h100,8,m,gelu,2,64,4,128,8,1,1,\n"
        "c,two,dgx-h100,8,m,gelu,2,64,4,128,8,1,1,nowhere\n",
        "runs.csv");
    const std::vector<RunRecord> runs = read_runs(table);
    const Cluster cluster = test::shipped_profiles().cluster("dgx-h100");
    const Framework framework = test::shipped_profiles().framework("megatron");
    const RunSites asked(three_sites(), "one");
    CHECK(asked.of(runs[0], cluster, framework).answer.name == "three");
    CHECK(asked.of(runs[1], cluster, framework).answer.name == "one");
    const RunSites usual(three_sites(), "");
    CHECK(usual.of(runs[1], cluster, framework).answer.name == "typical");
    const RowSites nowhere = usual.of(runs[2], cluster, framework);
    CHECK(nowhere.name == "nowhere");
    CHECK_FALSE(nowhere.own.has_value());
    CHECK(nowhere.answer.name == "typical");
  }
}

}  // namespace plansearch::site_errors_test
