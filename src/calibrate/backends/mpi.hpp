// SPDX-License-Identifier: Apache-2.0
// The processes that mpirun started together, by Open MPI, loaded at run time.
#pragma once

#include <memory>
#include <string>

namespace plansearch::calibrate {

/// Every function is called by all ranks in the same order.
class Ranks {
 public:
  /// Null where this process was not started by Open MPI's mpirun, or alone. Throws Unmeasurable
  /// where its library is not found.
  [[nodiscard]] static std::unique_ptr<Ranks> join();
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] int size_of_node() const;
  [[nodiscard]] std::string library() const;
  [[nodiscard]] double max(double value) const;
  /// That of the first rank.
  [[nodiscard]] std::string share(std::string text) const;
  void wait_for_all() const;
  /// One call among neighbours of so many ranks, all groups at once. `bytes` as nccl-tests counts
  /// them; both buffers hold as many. False: there is no such collective.
  bool communicate(const std::string& kind, int group, float* from, float* to, double bytes);

 private:
  struct Library;
  explicit Ranks(std::unique_ptr<Library> library);
  std::unique_ptr<Library> library_;
};

}  // namespace plansearch::calibrate
