// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/nccl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <nccl.h>

#include <array>
#include <chrono>
#include <map>
#include <type_traits>
#include <vector>

namespace plansearch::calibrate {
namespace {

struct NcclLibrary {
  decltype(&::ncclGetVersion) version = nullptr;
  decltype(&::ncclCommInitAll) init_all = nullptr;
  decltype(&::ncclGetErrorString) error_text = nullptr;
  decltype(&::ncclGroupStart) begin = nullptr;
  decltype(&::ncclGroupEnd) end = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclAllGather) all_gather = nullptr;
  decltype(&::ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) receive = nullptr;

  NcclLibrary() {
    void* file = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);  // for the life of the process
    if (file == nullptr)
      file = ::dlopen("/usr/local/cuda/lib64/libnccl.so.2", RTLD_NOW | RTLD_GLOBAL);
    if (file == nullptr) throw Unmeasurable{"libnccl.so.2 is not on this machine"};
    const auto find = [&](auto& entry, const char* name) {
      entry = reinterpret_cast<std::remove_reference_t<decltype(entry)>>(::dlsym(file, name));
      if (entry == nullptr) throw Unmeasurable{fmt::format("libnccl.so.2 has no {}", name)};
    };
    find(version, "ncclGetVersion");
    find(init_all, "ncclCommInitAll");
    find(error_text, "ncclGetErrorString");
    find(begin, "ncclGroupStart");
    find(end, "ncclGroupEnd");
    find(all_reduce, "ncclAllReduce");
    find(all_gather, "ncclAllGather");
    find(reduce_scatter, "ncclReduceScatter");
    find(send, "ncclSend");
    find(receive, "ncclRecv");
  }

  void check(ncclResult_t result) const {
    if (result != ncclSuccess) throw Unmeasurable{fmt::format("NCCL: {}", error_text(result))};
  }
};

/// A rank of a group: its place, its device, its buffers.
struct Rank {
  ncclComm_t comm = nullptr;
  int device = 0;
  int place = 0;
  char* from = nullptr;
  char* to = nullptr;
};

void all_reduce(const NcclLibrary& nccl, const Rank& rank, int /*group*/, std::size_t count) {
  nccl.check(nccl.all_reduce(rank.from, rank.to, count, ncclFloat, ncclSum, rank.comm, nullptr));
}

void all_gather(const NcclLibrary& nccl, const Rank& rank, int group, std::size_t count) {
  const std::size_t part = count / static_cast<std::size_t>(group);
  nccl.check(nccl.all_gather(rank.from, rank.to, part, ncclFloat, rank.comm, nullptr));
}

void reduce_scatter(const NcclLibrary& nccl, const Rank& rank, int group, std::size_t count) {
  const std::size_t part = count / static_cast<std::size_t>(group);
  nccl.check(nccl.reduce_scatter(rank.from, rank.to, part, ncclFloat, ncclSum, rank.comm, nullptr));
}

void all_to_all(const NcclLibrary& nccl, const Rank& rank, int group, std::size_t count) {
  const std::size_t part = count / static_cast<std::size_t>(group);
  for (int peer = 0; peer < group; ++peer) {
    const std::size_t at = static_cast<std::size_t>(peer) * part * sizeof(float);
    nccl.check(nccl.send(rank.from + at, part, ncclFloat, peer, rank.comm, nullptr));
    nccl.check(nccl.receive(rank.to + at, part, ncclFloat, peer, rank.comm, nullptr));
  }
}

void send_receive(const NcclLibrary& nccl, const Rank& rank, int group, std::size_t count) {
  const int next = (rank.place + 1) % group;
  const int last = (rank.place + group - 1) % group;
  nccl.check(nccl.send(rank.from, count, ncclFloat, next, rank.comm, nullptr));
  nccl.check(nccl.receive(rank.to, count, ncclFloat, last, rank.comm, nullptr));
}

/// What a rank does for a message of so many floats.
struct StartRow {
  std::string_view kind;
  void (*start)(const NcclLibrary& nccl, const Rank& rank, int group, std::size_t count);
};
constexpr std::array kStarts{StartRow{"all_reduce", all_reduce}, StartRow{"all_gather", all_gather},
                             StartRow{"reduce_scatter", reduce_scatter},
                             StartRow{"all_to_all", all_to_all},
                             StartRow{"send_recv", send_receive}};

class GroupTrial final : public Trial {
 public:
  GroupTrial(const CudaLibrary& cuda, const NcclLibrary& nccl, std::vector<Rank> ranks,
             const Point& point)
      : cuda_(cuda),
        nccl_(nccl),
        ranks_(std::move(ranks)),
        group_(static_cast<int>(point.number("ranks"))),
        count_(static_cast<std::size_t>(point.number("bytes")) / sizeof(float)) {
    for (const StartRow& row : kStarts) {
      if (row.kind == point.word("collective")) start_ = row.start;
    }
    if (start_ == nullptr) {
      throw Unmeasurable{fmt::format("there is no collective '{}'", point.word("collective"))};
    }
  }

  double run(int calls) override {
    using Clock = std::chrono::steady_clock;
    const auto begin = Clock::now();
    for (int call = 0; call < calls; ++call) {
      nccl_.check(nccl_.begin());
      for (const Rank& rank : ranks_) {
        cuda_.check(cuda_.set_device(rank.device), "a device");
        start_(nccl_, rank, group_, count_);
      }
      nccl_.check(nccl_.end());
    }
    for (const Rank& rank : ranks_) {
      cuda_.check(cuda_.set_device(rank.device), "a device");
      cuda_.check(cuda_.wait(nullptr), "a message");
    }
    const double time = std::chrono::duration<double>(Clock::now() - begin).count();
    cuda_.check(cuda_.set_device(0), "the first device");
    return time;
  }

 private:
  const CudaLibrary& cuda_;
  const NcclLibrary& nccl_;
  std::vector<Rank> ranks_;
  int group_;
  std::size_t count_;
  decltype(StartRow::start) start_ = nullptr;
};

class NcclMessages final : public Messages {
 public:
  explicit NcclMessages(const CudaLibrary& cuda) : cuda_(cuda), buffers_(2 * devices(), nullptr) {}
  ~NcclMessages() override { release(); }
  NcclMessages(const NcclMessages&) = delete;
  NcclMessages& operator=(const NcclMessages&) = delete;

  [[nodiscard]] std::string version() const override {
    int number = 0;
    nccl_.check(nccl_.version(&number));
    return fmt::format("{}", number);
  }

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    const int size = static_cast<int>(point.number("ranks"));
    grow(static_cast<std::size_t>(point.number("bytes")));
    std::vector<Rank> ranks;
    const std::vector<ncclComm_t>& comms = groups_of(size);
    for (std::size_t device = 0; device < comms.size(); ++device) {
      ranks.push_back({comms[device], static_cast<int>(device), static_cast<int>(device) % size,
                       static_cast<char*>(buffers_[2 * device]),
                       static_cast<char*>(buffers_[2 * device + 1])});
    }
    return std::make_unique<GroupTrial>(cuda_, nccl_, std::move(ranks), point);
  }

 private:
  [[nodiscard]] std::size_t devices() const { return static_cast<std::size_t>(cuda_.devices); }

  /// All groups of so many neighbouring devices; they are active at once.
  const std::vector<ncclComm_t>& groups_of(int size) {
    const auto [found, fresh] = groups_.emplace(size, std::vector<ncclComm_t>());
    if (!fresh) return found->second;
    for (int start = 0; start + size <= cuda_.devices; start += size) {
      std::vector<int> members;
      for (int device = start; device < start + size; ++device) members.push_back(device);
      std::vector<ncclComm_t> comms(members.size());
      nccl_.check(nccl_.init_all(comms.data(), size, members.data()));
      found->second.insert(found->second.end(), comms.begin(), comms.end());
    }
    return found->second;
  }

  void release() {
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      static_cast<void>(cuda_.set_device(static_cast<int>(i / 2)));
      static_cast<void>(cuda_.release(buffers_[i]));
      buffers_[i] = nullptr;
    }
    static_cast<void>(cuda_.set_device(0));
  }

  void grow(std::size_t bytes) {
    if (bytes <= size_) return;
    release();
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      cuda_.check(cuda_.set_device(static_cast<int>(i / 2)), "a device");
      cuda_.check(cuda_.allocate(&buffers_[i], bytes), "buffers of messages");
    }
    cuda_.check(cuda_.set_device(0), "the first device");
    size_ = bytes;
  }

  const CudaLibrary& cuda_;
  NcclLibrary nccl_;
  std::map<int, std::vector<ncclComm_t>> groups_;
  std::vector<void*> buffers_;
  std::size_t size_ = 0;
};

}  // namespace

std::unique_ptr<Messages> make_messages(const CudaLibrary& cuda) {
  if (cuda.devices < 2) throw Unmeasurable{"one GPU has nobody to send to"};
  return std::make_unique<NcclMessages>(cuda);
}

}  // namespace plansearch::calibrate
