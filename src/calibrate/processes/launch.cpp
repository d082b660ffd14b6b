// SPDX-License-Identifier: Apache-2.0
#include "calibrate/processes/launch.hpp"

#include <algorithm>

#include "base/units.hpp"

namespace plansearch::calibrate {
namespace {

constexpr int kNone = -1;
/// Ports of jobs lie in this range, above those of services.
constexpr int kFirstPort = 20000;
constexpr int kPorts = 10000;

int number_of(const Variables& variable, const char* name) {
  const char* text = variable(name);
  if (text == nullptr) return kNone;
  // "8(x2),4": the count of the first node.
  const std::string_view whole(text);
  const auto value = parse_number(std::string(whole.substr(0, whole.find_first_of("(,"))));
  return value ? static_cast<int>(*value) : kNone;
}

std::string word_of(const Variables& variable, const char* name) {
  const char* text = variable(name);
  return text == nullptr ? std::string() : std::string(text);
}

std::optional<Launch> torchrun(const Variables& variable) {
  Launch launch{"torchrun"};
  launch.rank = number_of(variable, "RANK");
  launch.size = number_of(variable, "WORLD_SIZE");
  launch.host = word_of(variable, "MASTER_ADDR");
  launch.port = number_of(variable, "MASTER_PORT");
  if (launch.rank < 0 || launch.size < 2 || launch.host.empty() || launch.port < 1) {
    return std::nullopt;
  }
  launch.place_in_node = std::max(0, number_of(variable, "LOCAL_RANK"));
  launch.size_of_node = std::max(1, number_of(variable, "LOCAL_WORLD_SIZE"));
  // torch.distributed.elastic keeps MASTER_PORT for its own store (local_elastic_agent.py).
  if (word_of(variable, "TORCHELASTIC_USE_AGENT_STORE") == "True") ++launch.port;
  return launch;
}

/// A batch script is not a step: it has no SLURM_STEP_NUM_TASKS above one.
std::optional<Launch> slurm(const Variables& variable) {
  Launch launch{"Slurm"};
  launch.rank = number_of(variable, "SLURM_PROCID");
  launch.size = number_of(variable, "SLURM_STEP_NUM_TASKS");
  launch.host = first_host(word_of(variable, "SLURM_STEP_NODELIST"));
  if (launch.rank < 0 || launch.size < 2 || launch.host.empty()) return std::nullopt;
  launch.place_in_node = std::max(0, number_of(variable, "SLURM_LOCALID"));
  launch.size_of_node = std::max(1, number_of(variable, "SLURM_STEP_TASKS_PER_NODE"));
  launch.port = kFirstPort + std::max(0, number_of(variable, "SLURM_JOB_ID")) % kPorts;
  return launch;
}

}  // namespace

std::string first_host(std::string_view list) {
  const std::size_t open = list.find_first_of("[,");
  if (open == std::string_view::npos || list[open] == ',') return std::string(list.substr(0, open));
  const std::string_view numbers = list.substr(open + 1);
  return std::string(list.substr(0, open)) +
         std::string(numbers.substr(0, numbers.find_first_of(",-]")));
}

std::optional<Launch> launch_of(const Variables& variable) {
  auto launch = torchrun(variable);
  if (!launch) launch = slurm(variable);
  if (!launch) return launch;
  if (const int port = number_of(variable, "PLANSEARCH_PORT"); port > 0) launch->port = port;
  return launch;
}

}  // namespace plansearch::calibrate
