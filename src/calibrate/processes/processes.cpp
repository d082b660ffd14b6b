// SPDX-License-Identifier: Apache-2.0
#include "calibrate/processes/processes.hpp"

#include <unistd.h>

#include <array>
#include <cstdlib>

#include "base/units.hpp"
#include "calibrate/processes/launch.hpp"
#include "calibrate/processes/mpi.hpp"
#include "calibrate/processes/store.hpp"

namespace plansearch::calibrate {

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

}  // namespace plansearch::calibrate
