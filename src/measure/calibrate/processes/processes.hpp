// SPDX-License-Identifier: Apache-2.0
// The processes that one launcher started together (one a GPU, or one a share of a processor), how
// they find each other, and the groups of ranks that messages join.
#pragma once

#include <compare>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/document/file.hpp"

namespace plansearch::calibrate {

/// Base of interfaces, and of classes that own something.
class NotCopied {
 public:
  NotCopied() = default;
  virtual ~NotCopied() = default;
  NotCopied(const NotCopied&) = delete;
  NotCopied& operator=(const NotCopied&) = delete;
};

/// Every function but the first few is called by all processes in the same order.
class Processes : public NotCopied {
 public:
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual int size_of_node() const = 0;
  /// Among those of its node.
  [[nodiscard]] virtual int place_in_node() const = 0;
  /// Who started them, for the file of samples.
  [[nodiscard]] virtual std::string launcher() const = 0;

  [[nodiscard]] virtual double max(double value) = 0;
  /// Texts of all ranks, in their order.
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

/// So many ranks, so far apart; all groups at once, or the first alone.
struct MessageGroup {
  int ranks = 1;
  int stride = 1;
  bool alone = false;
  auto operator<=>(const MessageGroup&) const = default;
};

/// Group of a rank, and its place there.
struct GroupPlace {
  int group = 0;
  int place = 0;
  bool operator==(const GroupPlace&) const = default;
};
/// Groups lie beside each other as those of a mesh axis do.
[[nodiscard]] GroupPlace place_of(int rank, const MessageGroup& group);
/// The first rank of the group of a rank.
[[nodiscard]] int leader_of(int rank, const MessageGroup& group);
/// Whether so many ranks fall into whole groups.
[[nodiscard]] bool divides(const MessageGroup& group, int ranks);
/// Over which a group spreads, with so many ranks a node.
[[nodiscard]] int nodes_of(const MessageGroup& group, int ranks_of_node);

/// Where this process stands among those that were started with it, and where they meet.
struct Launch {
  std::string launcher;
  int rank = 0;
  int size = 1;
  int place_in_node = 0;
  int size_of_node = 1;
  std::string host{};  ///< of the first process
  int port = 0;        ///< on which the first process waits
  bool operator==(const Launch&) const = default;
};

/// Null for variables that are not set.
using Variables = std::function<const char*(const char*)>;

/// torchrun: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT (one above
/// it, where the agent keeps that port itself). srun: SLURM_PROCID, SLURM_STEP_NUM_TASKS,
/// SLURM_LOCALID, SLURM_STEP_TASKS_PER_NODE, SLURM_STEP_NODELIST, SLURM_JOB_ID.
/// PLANSEARCH_PORT names another port. Nothing: a process alone.
[[nodiscard]] std::optional<Launch> launch_of(const Variables& variable);

/// First host of a list: gpu003 of "gpu[003-010,12],login1".
[[nodiscard]] std::string first_host(std::string_view list);

/// A process that ended before its time, as the others see it; thrown.
struct ProcessLost {
  std::string reason;
};

/// Waits for all of them, at most so many seconds; throws Unmeasurable that names who is missing.
[[nodiscard]] std::unique_ptr<Processes> join_store(
    const Launch& launch, const std::function<void(const std::string&)>& on_loss, double seconds);

/// The processes that mpirun started together, by Open MPI, loaded at run time.
class MpiProcesses final : public Processes {
 public:
  /// Null where this process was not started by Open MPI's mpirun, or alone. Throws Unmeasurable
  /// where its library is not found.
  [[nodiscard]] static std::unique_ptr<MpiProcesses> join();
  ~MpiProcesses() override;

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

// Messages of bytes over TCP.

/// Waits on every address of this machine; throws Unmeasurable where the port is taken.
[[nodiscard]] io::Descriptor listen_on(int port);
/// Not valid after so many seconds without anybody.
[[nodiscard]] io::Descriptor accept_within(const io::Descriptor& listening, double seconds);
/// Tries for so many seconds; not valid: no answer.
[[nodiscard]] io::Descriptor connect_within(const std::string& host, int port, double seconds);

/// False: the other side is gone.
[[nodiscard]] bool send_text(const io::Descriptor& socket, const std::string& text);
/// Nothing: the other side is gone. At most 64 MiB.
[[nodiscard]] std::optional<std::string> receive_text(const io::Descriptor& socket);

}  // namespace plansearch::calibrate
