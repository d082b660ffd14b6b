// SPDX-License-Identifier: Apache-2.0
#include "calibrate/processes/processes.hpp"

#include <doctest/doctest.h>

#include <map>

namespace plansearch::calibrate {
namespace {

std::optional<Launch> launched(const std::map<std::string, std::string>& variables) {
  return launch_of([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the first host of a list of Slurm's") {
    CHECK(first_host("gpu7") == "gpu7");
    CHECK(first_host("gpu7,login1") == "gpu7");
    CHECK(first_host("gpu[003-010,12],login1") == "gpu003");
    CHECK(first_host("a-b[5]") == "a-b5");
    CHECK(first_host("") == "");
  }

  TEST_CASE("torchrun's variables, and the port beside that of its agent") {
    const std::map<std::string, std::string> variables{{"RANK", "9"},
                                                       {"WORLD_SIZE", "16"},
                                                       {"LOCAL_RANK", "1"},
                                                       {"LOCAL_WORLD_SIZE", "8"},
                                                       {"MASTER_ADDR", "node0"},
                                                       {"MASTER_PORT", "29500"}};
    CHECK(launched(variables).value() == Launch{"torchrun", 9, 16, 1, 8, "node0", 29500});
    auto elastic = variables;
    elastic["TORCHELASTIC_USE_AGENT_STORE"] = "True";
    CHECK(launched(elastic).value().port == 29501);
    elastic["PLANSEARCH_PORT"] = "4000";
    CHECK(launched(elastic).value().port == 4000);
    auto alone = variables;
    alone["WORLD_SIZE"] = "1";
    CHECK_FALSE(launched(alone).has_value());
  }

  TEST_CASE("srun's variables; a batch script is alone") {
    const std::map<std::string, std::string> step{
        {"SLURM_PROCID", "3"},       {"SLURM_STEP_NUM_TASKS", "6"},
        {"SLURM_LOCALID", "1"},      {"SLURM_STEP_TASKS_PER_NODE", "4(x1),2"},
        {"SLURM_JOB_ID", "1234567"}, {"SLURM_STEP_NODELIST", "gpu[08-09]"}};
    CHECK(launched(step).value() == Launch{"Slurm", 3, 6, 1, 4, "gpu08", 24567});
    CHECK_FALSE(launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "6"}}).has_value());
    CHECK_FALSE(launched({}).has_value());
  }
}

}  // namespace plansearch::calibrate
