// SPDX-License-Identifier: Apache-2.0
// Calls timed by events: one after the other, in a graph, or beside another call.
#include <algorithm>

#include "measure/calibrate/backends/cuda_calls.hpp"

namespace plansearch::calibrate {
namespace {

/// A stream of its own, which does not wait for others.
class Stream : NotCopied {
 public:
  explicit Stream(const CudaLibrary& cuda) : cuda_(cuda) {
    cuda_.check(cuda_.stream_create(&stream_, cudaStreamNonBlocking), "a stream");
  }
  ~Stream() override { static_cast<void>(cuda_.stream_destroy(stream_)); }
  [[nodiscard]] cudaStream_t get() const { return stream_; }
  void wait() const { cuda_.check(cuda_.wait(stream_), "a call"); }

 private:
  const CudaLibrary& cuda_;
  cudaStream_t stream_ = nullptr;
};

/// Two events around what is put on a stream.
class Interval : NotCopied {
 public:
  explicit Interval(const CudaLibrary& cuda) : cuda_(cuda) {
    cuda_.check(cuda_.event_create(&begin_), "an event");
    cuda_.check(cuda_.event_create(&end_), "an event");
  }
  ~Interval() override {
    static_cast<void>(cuda_.event_destroy(begin_));
    static_cast<void>(cuda_.event_destroy(end_));
  }

  void begin(const Stream& stream) {
    cuda_.check(cuda_.event_record(begin_, stream.get()), "an event");
  }
  /// Seconds, once what lies between is done.
  double end(const Stream& stream) {
    constexpr double kMilli = 1e-3;
    cuda_.check(cuda_.event_record(end_, stream.get()), "an event");
    cuda_.check(cuda_.event_wait(end_), "a call");
    float milliseconds = 0.0F;
    cuda_.check(cuda_.event_elapsed(&milliseconds, begin_, end_), "an event");
    return kMilli * static_cast<double>(milliseconds);
  }

 private:
  const CudaLibrary& cuda_;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

class TimedTrial final : public Trial {
 public:
  TimedTrial(const CudaLibrary& cuda, std::unique_ptr<DeviceCall> call)
      : call_(std::move(call)), stream_(cuda), interval_(cuda) {}

  double run(int calls) override {
    interval_.begin(stream_);
    for (int i = 0; i < calls; ++i) call_->issue(stream_.get());
    const double time = interval_.end(stream_);
    call_->finish();
    return time;
  }

 private:
  std::unique_ptr<DeviceCall> call_;
  Stream stream_;
  Interval interval_;
};

class GraphTrial final : public Trial {
 public:
  GraphTrial(const CudaLibrary& cuda, std::unique_ptr<DeviceCall> call)
      : cuda_(cuda), call_(std::move(call)), stream_(cuda), interval_(cuda) {
    cudaGraph_t graph = nullptr;
    cuda_.check(cuda_.capture_begin(stream_.get(), cudaStreamCaptureModeThreadLocal), "a graph");
    for (int i = 0; i < kCaptured; ++i) call_->issue(stream_.get());
    cuda_.check(cuda_.capture_end(stream_.get(), &graph), "a graph");
    const cudaError_t made = cuda_.graph_instantiate(&graph_, graph, 0);
    static_cast<void>(cuda_.graph_destroy(graph));
    cuda_.check(made, "a graph");
  }
  ~GraphTrial() override { static_cast<void>(cuda_.graph_exec_destroy(graph_)); }

  double run(int calls) override {
    const int graphs = (calls + kCaptured - 1) / kCaptured;
    interval_.begin(stream_);
    for (int i = 0; i < graphs; ++i) {
      cuda_.check(cuda_.graph_launch(graph_, stream_.get()), "a graph");
    }
    return interval_.end(stream_) * calls / (static_cast<double>(graphs) * kCaptured);
  }

 private:
  static constexpr int kCaptured = 200;
  const CudaLibrary& cuda_;
  std::unique_ptr<DeviceCall> call_;
  Stream stream_;
  Interval interval_;
  cudaGraphExec_t graph_ = nullptr;
};

class OverlapTrial final : public Trial {
 public:
  OverlapTrial(const CudaLibrary& cuda, std::unique_ptr<DeviceCall> call,
               std::unique_ptr<DeviceCall> beside, std::function<double(double)> agree)
      : call_(std::move(call)),
        beside_(std::move(beside)),
        own_(cuda),
        other_(cuda),
        interval_(cuda),
        agree_(std::move(agree)) {
    time_ = agree_(alone(*call_));
    beside_time_ = agree_(alone(*beside_));
  }

  /// The other stream always holds work for twice as long as was asked for so far.
  double run(int calls) override {
    constexpr double kAhead = 2.0;
    double issued = 0.0;
    const auto hold = [&](double seconds) {
      for (; issued < seconds; issued += beside_time_) beside_->issue(other_.get());
    };
    hold(kAhead * beside_time_);
    interval_.begin(own_);
    for (int i = 0; i < calls; ++i) {
      hold(kAhead * (beside_time_ + (i + 1) * time_));
      call_->issue(own_.get());
    }
    const double time = interval_.end(own_);
    call_->finish();
    other_.wait();
    beside_->finish();
    return time;
  }

 private:
  double alone(DeviceCall& call) {
    constexpr int kCalls = 4;
    constexpr double kLeast = 1e-6;
    double best = 0.0;
    for (int turn = 0; turn < 3; ++turn) {
      interval_.begin(own_);
      for (int i = 0; i < kCalls; ++i) call.issue(own_.get());
      const double time = interval_.end(own_) / kCalls;
      call.finish();
      best = turn == 0 ? time : std::min(best, time);
    }
    return std::max(kLeast, best);
  }

  std::unique_ptr<DeviceCall> call_;
  std::unique_ptr<DeviceCall> beside_;
  Stream own_;
  Stream other_;
  Interval interval_;
  std::function<double(double)> agree_;
  double time_ = 0.0;
  double beside_time_ = 0.0;
};

}  // namespace

std::unique_ptr<Trial> timed(const CudaLibrary& cuda, std::unique_ptr<DeviceCall> call) {
  return std::make_unique<TimedTrial>(cuda, std::move(call));
}

std::unique_ptr<Trial> captured(const CudaLibrary& cuda, std::unique_ptr<DeviceCall> call) {
  return std::make_unique<GraphTrial>(cuda, std::move(call));
}

std::unique_ptr<Trial> overlapped(const CudaLibrary& cuda, std::unique_ptr<DeviceCall> call,
                                  std::unique_ptr<DeviceCall> beside,
                                  std::function<double(double)> agree) {
  return std::make_unique<OverlapTrial>(cuda, std::move(call), std::move(beside), std::move(agree));
}

}  // namespace plansearch::calibrate
