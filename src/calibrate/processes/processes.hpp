// SPDX-License-Identifier: Apache-2.0
// The processes that one launcher started together: one a GPU, or one a share of a processor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace plansearch::calibrate {

/// Every function but the first few is called by all processes in the same order.
class Processes {
 public:
  Processes() = default;
  virtual ~Processes() = default;
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int size_of_node() const = 0;
  /// Among those of its node.
  [[nodiscard]] virtual int place_in_node() const = 0;
  /// Who started them, for the file of samples.
  [[nodiscard]] virtual std::string launcher() const = 0;

  [[nodiscard]] virtual double max(double value) = 0;
  /// Of every rank, in their order.
  [[nodiscard]] virtual std::vector<std::string> texts(const std::string& own) = 0;
  virtual void wait_for_all() = 0;
  /// That of the first rank.
  [[nodiscard]] std::string share(const std::string& text);
};

/// The name of this node.
[[nodiscard]] std::string own_host();

/// Null where this process is alone. Open MPI's mpirun, torchrun and srun are known by the
/// variables that they set; PLANSEARCH_WAIT bounds the seconds that they wait for each other.
/// `on_loss` is called, from any thread, with what is known of a process that ended before its
/// time; it must not return. Throws Unmeasurable where the others do not come.
[[nodiscard]] std::unique_ptr<Processes> join_processes(
    const std::function<void(const std::string&)>& on_loss);

}  // namespace plansearch::calibrate
