// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/processes/processes.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

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

std::string Processes::share(const std::string& text) {
  return texts(rank() == 0 ? text : std::string()).front();
}

std::string own_host() {
  std::array<char, 256> name{};
  static_cast<void>(::gethostname(name.data(), name.size() - 1));
  return name.data();
}

std::unique_ptr<Processes> join_processes(const std::function<void(const std::string&)>& on_loss) {
  if (auto mpi = MpiProcesses::join()) return mpi;
  const auto launch = launch_of([](const char* name) { return std::getenv(name); });
  if (!launch) return nullptr;
  // Nodes of a large job start minutes apart.
  constexpr double kWait = 300.0;
  const char* wait = std::getenv("PLANSEARCH_WAIT");
  const double seconds = wait == nullptr ? kWait : parse_number(wait).value_or(kWait);
  return join_store(*launch, on_loss, seconds);
}

GroupPlace place_of(int rank, const MessageGroup& group) {
  const int block = group.ranks * group.stride;
  const int within = rank % block;
  return {rank / block * group.stride + within % group.stride, within / group.stride};
}

int leader_of(int rank, const MessageGroup& group) {
  return rank - place_of(rank, group).place * group.stride;
}

bool divides(const MessageGroup& group, int ranks) {
  return group.ranks <= ranks && ranks % (group.ranks * group.stride) == 0;
}

int nodes_of(const MessageGroup& group, int ranks_of_node) {
  const int span = (group.ranks - 1) * group.stride + 1;
  const int nodes = (span + ranks_of_node - 1) / ranks_of_node;
  return std::min(nodes, group.ranks);
}

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
