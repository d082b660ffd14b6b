// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backends/cuda_calls.hpp"

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

namespace plansearch::calibrate {
namespace {

struct NcclLibrary {
  SharedLibrary library{"libnccl.so.2",
                        {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"},
                        {"libnccl.so.2 is not on this machine"}};
  decltype(&::ncclGetVersion) version = library["ncclGetVersion"];
  decltype(&::ncclGetUniqueId) unique_id = library["ncclGetUniqueId"];
  decltype(&::ncclCommInitRank) init_rank = library["ncclCommInitRank"];
  decltype(&::ncclCommDestroy) destroy = library["ncclCommDestroy"];
  decltype(&::ncclGetErrorString) error_text = library["ncclGetErrorString"];
  decltype(&::ncclGroupStart) begin = library["ncclGroupStart"];
  decltype(&::ncclGroupEnd) end = library["ncclGroupEnd"];
  decltype(&::ncclAllReduce) all_reduce = library["ncclAllReduce"];
  decltype(&::ncclAllGather) all_gather = library["ncclAllGather"];
  decltype(&::ncclReduceScatter) reduce_scatter = library["ncclReduceScatter"];
  decltype(&::ncclBroadcast) broadcast = library["ncclBroadcast"];
  decltype(&::ncclSend) send = library["ncclSend"];
  decltype(&::ncclRecv) receive = library["ncclRecv"];

  void check(ncclResult_t result) const {
    if (result != ncclSuccess) throw Unmeasurable{fmt::format("NCCL: {}", error_text(result))};
  }
};

/// A rank of a group: its place, its device, its buffers, and the stream that it runs on.
struct Rank {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int device = 0;
  int place = 0;
  char* from = nullptr;
  char* to = nullptr;
};

void all_reduce(const NcclLibrary& nccl, const Rank& rank, int /*group*/, std::size_t count) {
  nccl.check(
      nccl.all_reduce(rank.from, rank.to, count, ncclFloat, ncclSum, rank.comm, rank.stream));
}

void all_gather(const NcclLibrary& nccl, const Rank& rank, int group, std::size_t count) {
  const std::size_t part = count / static_cast<std::size_t>(group);
  nccl.check(nccl.all_gather(rank.from, rank.to, part, ncclFloat, rank.comm, rank.stream));
}

void reduce_scatter(const NcclLibrary& nccl, const Rank& rank, int group, std::size_t count) {
  const std::size_t part = count / static_cast<std::size_t>(group);
  nccl.check(
      nccl.reduce_scatter(rank.from, rank.to, part, ncclFloat, ncclSum, rank.comm, rank.stream));
}

void all_to_all(const NcclLibrary& nccl, const Rank& rank, int group, std::size_t count) {
  const std::size_t part = count / static_cast<std::size_t>(group);
  for (int peer = 0; peer < group; ++peer) {
    const std::size_t at = static_cast<std::size_t>(peer) * part * sizeof(float);
    nccl.check(nccl.send(rank.from + at, part, ncclFloat, peer, rank.comm, rank.stream));
    nccl.check(nccl.receive(rank.to + at, part, ncclFloat, peer, rank.comm, rank.stream));
  }
}

void broadcast(const NcclLibrary& nccl, const Rank& rank, int /*group*/, std::size_t count) {
  nccl.check(nccl.broadcast(rank.from, rank.to, count, ncclFloat, 0, rank.comm, rank.stream));
}

void send_receive(const NcclLibrary& nccl, const Rank& rank, int group, std::size_t count) {
  const int next = (rank.place + 1) % group;
  const int last = (rank.place + group - 1) % group;
  nccl.check(nccl.send(rank.from, count, ncclFloat, next, rank.comm, rank.stream));
  nccl.check(nccl.receive(rank.to, count, ncclFloat, last, rank.comm, rank.stream));
}

/// Calls of a rank for a message of so many floats.
struct StartRow {
  std::string_view kind;
  void (*start)(const NcclLibrary& nccl, const Rank& rank, int group, std::size_t count);
};
constexpr std::array kStarts{
    StartRow{"all_reduce", all_reduce},         StartRow{"all_gather", all_gather},
    StartRow{"reduce_scatter", reduce_scatter}, StartRow{"all_to_all", all_to_all},
    StartRow{"broadcast", broadcast},           StartRow{"send_recv", send_receive}};

class GroupCall final : public DeviceCall {
 public:
  /// The first rank runs on the stream of the caller.
  GroupCall(const CudaLibrary& cuda, const NcclLibrary& nccl, std::vector<Rank> ranks,
            const Point& point)
      : cuda_(cuda),
        nccl_(nccl),
        ranks_(std::move(ranks)),
        group_(message_group(point)),
        count_(static_cast<std::size_t>(point.number("bytes")) / sizeof(float)) {
    for (const StartRow& row : kStarts) {
      if (row.kind == point.word("collective")) start_ = row.start;
    }
    if (start_ == nullptr) {
      throw Unmeasurable{fmt::format("there is no collective '{}'", point.word("collective"))};
    }
  }

  void issue(cudaStream_t stream) override {
    if (ranks_.empty()) return;  // another group is measured alone
    ranks_.front().stream = stream;
    nccl_.check(nccl_.begin());
    for (const Rank& rank : ranks_) {
      cuda_.check(cuda_.set_device(rank.device), "a device");
      start_(nccl_, rank, group_.ranks, count_);
    }
    nccl_.check(nccl_.end());
    cuda_.check(cuda_.set_device(ranks_.front().device), "a device");
  }

  void finish() override {
    for (std::size_t i = 1; i < ranks_.size(); ++i) {
      cuda_.check(cuda_.set_device(ranks_[i].device), "a device");
      cuda_.check(cuda_.wait(ranks_[i].stream), "a message");
    }
    if (ranks_.size() > 1) cuda_.check(cuda_.set_device(ranks_.front().device), "a device");
  }

 private:
  const CudaLibrary& cuda_;
  const NcclLibrary& nccl_;
  std::vector<Rank> ranks_;
  MessageGroup group_;
  std::size_t count_;
  decltype(StartRow::start) start_ = nullptr;
};

/// A device of this process.
struct Seat {
  int device = 0;
  int rank = 0;  ///< among those of all processes
  cudaStream_t stream = nullptr;
  void* from = nullptr;
  void* to = nullptr;
};

class NcclMessages final : public Messages {
 public:
  NcclMessages(const CudaLibrary& cuda, const std::vector<int>& devices, Processes* processes)
      : cuda_(cuda),
        processes_(processes),
        ranks_(processes == nullptr ? static_cast<int>(devices.size()) : processes->size()) {
    for (std::size_t i = 0; i < devices.size(); ++i) {
      Seat seat{devices[i], processes == nullptr ? static_cast<int>(i) : processes->rank()};
      cuda_.check(cuda_.set_device(seat.device), "a device");
      cuda_.check(cuda_.stream_create(&seat.stream, cudaStreamNonBlocking), "a stream");
      seats_.push_back(seat);
    }
    back_to_first();
  }
  ~NcclMessages() override {
    release();
    for (const auto& [group, comms] : groups_) {
      for (const ncclComm_t comm : comms) static_cast<void>(nccl_.destroy(comm));
    }
  }

  [[nodiscard]] std::string version() const override {
    int number = 0;
    nccl_.check(nccl_.version(&number));
    return fmt::format("{}", number);
  }
  [[nodiscard]] int ranks() const override { return ranks_; }

  [[nodiscard]] std::unique_ptr<DeviceCall> prepare(const Point& point) override {
    MessageGroup group = message_group(point);
    if (!divides(group, ranks_)) throw Unmeasurable{"the ranks do not fall into such groups"};
    grow(static_cast<std::size_t>(point.number("bytes")));
    const bool alone = group.alone;
    group.alone = false;  // the same communicators
    const std::vector<ncclComm_t>& comms = communicators(group);
    std::vector<Rank> members;
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      const Seat& seat = seats_[i];
      const GroupPlace own = place_of(seat.rank, group);
      if (alone && own.group != 0) continue;
      members.push_back({comms[i], seat.stream, seat.device, own.place,
                         static_cast<char*>(seat.from), static_cast<char*>(seat.to)});
    }
    return std::make_unique<GroupCall>(cuda_, nccl_, std::move(members), point);
  }

 private:
  void back_to_first() { cuda_.check(cuda_.set_device(seats_.front().device), "a device"); }

  /// Identifier of the group of every device here; the first rank of a group names it to the
  /// others.
  const std::vector<ncclComm_t>& communicators(const MessageGroup& group) {
    const auto known = groups_.find(group);
    if (known != groups_.end()) return known->second;
    const std::vector<std::string> names = names_of_groups(group);
    std::vector<ncclComm_t> comms(seats_.size());
    nccl_.check(nccl_.begin());
    for (std::size_t i = 0; i < seats_.size(); ++i) {
      const int rank = seats_[i].rank;
      ncclUniqueId id{};
      const std::string& name = names[static_cast<std::size_t>(leader_of(rank, group))];
      std::memcpy(&id, name.data(), std::min(name.size(), sizeof id));
      cuda_.check(cuda_.set_device(seats_[i].device), "a device");
      nccl_.check(nccl_.init_rank(&comms[i], group.ranks, id, place_of(rank, group).place));
    }
    nccl_.check(nccl_.end());
    back_to_first();
    return groups_.emplace(group, std::move(comms)).first->second;
  }

  /// By rank; empty for those that lead none.
  std::vector<std::string> names_of_groups(const MessageGroup& group) {
    std::vector<std::string> names(static_cast<std::size_t>(ranks_));
    for (const Seat& seat : seats_) {
      if (leader_of(seat.rank, group) != seat.rank) continue;
      ncclUniqueId id{};
      nccl_.check(nccl_.unique_id(&id));
      names[static_cast<std::size_t>(seat.rank)].assign(reinterpret_cast<const char*>(&id),
                                                        sizeof id);
    }
    if (processes_ == nullptr) return names;
    return processes_->texts(names[static_cast<std::size_t>(processes_->rank())]);
  }

  void release() {
    for (Seat& seat : seats_) {
      static_cast<void>(cuda_.set_device(seat.device));
      static_cast<void>(cuda_.release(seat.from));
      static_cast<void>(cuda_.release(seat.to));
      seat.from = seat.to = nullptr;
    }
    static_cast<void>(cuda_.set_device(seats_.front().device));
  }

  void grow(std::size_t bytes) {
    if (bytes <= size_) return;
    release();
    for (Seat& seat : seats_) {
      cuda_.check(cuda_.set_device(seat.device), "a device");
      cuda_.check(cuda_.allocate(&seat.from, bytes), "buffers of messages");
      cuda_.check(cuda_.allocate(&seat.to, bytes), "buffers of messages");
    }
    back_to_first();
    size_ = bytes;
  }

  const CudaLibrary& cuda_;
  NcclLibrary nccl_;
  Processes* processes_;
  int ranks_;
  std::vector<Seat> seats_;
  std::map<MessageGroup, std::vector<ncclComm_t>> groups_;
  std::size_t size_ = 0;
};

}  // namespace

std::unique_ptr<Messages> make_messages(const CudaLibrary& cuda, const std::vector<int>& devices,
                                        Processes* processes) {
  if (processes == nullptr && devices.size() < 2) {
    throw Unmeasurable{"one GPU has nobody to send to"};
  }
  return std::make_unique<NcclMessages>(cuda, devices, processes);
}

}  // namespace plansearch::calibrate
