// SPDX-License-Identifier: Apache-2.0
// The processes that mpirun started together, by Open MPI, loaded at run time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "calibrate/processes/processes.hpp"

namespace plansearch::calibrate {

class MpiProcesses final : public Processes {
 public:
  /// Null where this process was not started by Open MPI's mpirun, or alone. Throws Unmeasurable
  /// where its library is not found.
  [[nodiscard]] static std::unique_ptr<MpiProcesses> join();
  ~MpiProcesses() override;
  MpiProcesses(const MpiProcesses&) = delete;
  MpiProcesses& operator=(const MpiProcesses&) = delete;

  [[nodiscard]] int rank() const override;
  [[nodiscard]] int size() const override;
  [[nodiscard]] int size_of_node() const override;
  [[nodiscard]] int place_in_node() const override;
  [[nodiscard]] std::string launcher() const override;
  [[nodiscard]] double max(double value) override;
  [[nodiscard]] std::vector<std::string> texts(const std::string& own) override;
  void wait_for_all() override;
  /// One call in the group of this rank. `bytes` as nccl-tests counts them; both buffers hold as
  /// many. False: there is no such collective.
  bool communicate(const std::string& kind, const MessageGroup& group, float* from, float* to,
                   double bytes);

 private:
  struct Library;
  explicit MpiProcesses(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace plansearch::calibrate
