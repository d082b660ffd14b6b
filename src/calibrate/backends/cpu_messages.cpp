// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/cpu_messages.hpp"

#include <fmt/format.h>

#include "calibrate/backends/cpu_trials.hpp"
#include "calibrate/probes/probe_rows.hpp"

namespace plansearch::calibrate {
namespace {

class MessageTrial final : public Trial {
 public:
  MessageTrial(MpiProcesses& processes, const Point& point, CpuBuffer& read, CpuBuffer& written)
      : processes_(processes),
        kind_(point.word("collective")),
        group_(message_group(point)),
        bytes_(point.number("bytes")) {
    const auto count = static_cast<std::size_t>(bytes_ / sizeof(float));
    read_ = read.at_least(count);
    written_ = written.at_least(count);
    if (!call()) throw Unmeasurable{fmt::format("there is no collective '{}'", kind_)};
  }

  double run(int calls) override {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) static_cast<void>(call());
    return seconds_since(begin);
  }

 private:
  bool call() { return processes_.communicate(kind_, group_, read_, written_, bytes_); }

  MpiProcesses& processes_;
  std::string kind_;
  MessageGroup group_;
  double bytes_;
  float* read_ = nullptr;
  float* written_ = nullptr;
};

}  // namespace

std::unique_ptr<Trial> mpi_message(MpiProcesses& processes, const Point& point, CpuBuffer& read,
                                   CpuBuffer& written) {
  return std::make_unique<MessageTrial>(processes, point, read, written);
}

}  // namespace plansearch::calibrate
