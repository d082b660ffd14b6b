// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <vector>

#include "base/parallel.hpp"
#include "calibrate/backends/backend_rows.hpp"
#include "calibrate/backends/blas.hpp"
#include "calibrate/backends/memory_passes.hpp"
#include "calibrate/backends/mpi.hpp"
#include "calibrate/backends/rotation.hpp"
#include "calibrate/probes/probe_rows.hpp"

namespace plansearch::calibrate {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Numbers of every sign between -1 and 1: products of zeros run faster than those of a network.
class Buffer {
 public:
  float* at_least(std::size_t count) {
    std::size_t filled = values_.size();
    if (filled < count) values_.resize(count);
    for (; filled < values_.size(); ++filled) {
      state_ ^= state_ << 13U;
      state_ ^= state_ >> 7U;
      state_ ^= state_ << 17U;
      values_[filled] = static_cast<float>(static_cast<std::int32_t>(state_ >> 32U)) / 2147483648.F;
    }
    return values_.data();
  }

 private:
  std::vector<float> values_;
  std::uint64_t state_ = 88172645463325252ULL;
};

class GemmTrial final : public Trial {
 public:
  GemmTrial(const Blas& blas, const Point& point, Rotation rotation, Buffer& read, Buffer& written)
      : blas_(blas),
        layout_(point.word("layout")),
        batch_(static_cast<std::size_t>(point.number("batch"))),
        m_(static_cast<int>(point.number("m"))),
        n_(static_cast<int>(point.number("n"))),
        k_(static_cast<int>(point.number("k"))),
        rotation_(rotation),
        operands_(size(m_, k_) + size(k_, n_)),
        read_(read.at_least(operands_ * batch_ * rotation_.sets())),
        written_(written.at_least(size(m_, n_) * batch_ * rotation_.sets())) {}

  double run(int calls) override {
    const auto begin = Clock::now();
    for (int call = 0; call < calls; ++call) {
      const std::size_t set = rotation_.next() * batch_;
      for (std::size_t i = 0; i < batch_; ++i) multiply(set + i);
    }
    return seconds_since(begin);
  }

 private:
  static std::size_t size(int rows, int columns) {
    return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  }

  void multiply(std::size_t place) const {
    constexpr int kRowMajor = 101;
    constexpr int kPlain = 111;
    constexpr int kTransposed = 112;
    const bool a_turned = layout_ == "tn";
    const bool b_turned = layout_ == "nt";
    const float* a = read_ + place * operands_;
    const float* b = a + size(m_, k_);
    blas_.sgemm(kRowMajor, a_turned ? kTransposed : kPlain, b_turned ? kTransposed : kPlain, m_, n_,
                k_, 1.0F, a, a_turned ? m_ : k_, b, b_turned ? k_ : n_, 0.0F,
                written_ + place * size(m_, n_), n_);
  }

  const Blas& blas_;
  std::string layout_;
  std::size_t batch_;
  int m_;
  int n_;
  int k_;
  Rotation rotation_;
  std::size_t operands_;
  const float* read_;
  float* written_;
};

class StreamTrial final : public Trial {
 public:
  StreamTrial(const StreamPass& pass, double bytes, int threads, Rotation rotation, Buffer& read,
              Buffer& written)
      : run_(memory_pass(pass.name)),
        threads_(static_cast<std::size_t>(threads)),
        count_(static_cast<std::size_t>(bytes) / sizeof(float) /
               static_cast<std::size_t>(pass.reads + pass.writes)),
        // What is updated in place is not read elsewhere.
        reads_(static_cast<std::size_t>(pass.reads > 2 ? pass.reads - pass.writes : pass.reads)),
        writes_(static_cast<std::size_t>(pass.writes)),
        rotation_(rotation),
        read_(read.at_least(reads_ * count_ * rotation_.sets())),
        written_(written.at_least(writes_ * count_ * rotation_.sets())) {}

  double run(int calls) override {
    const auto begin = Clock::now();
    for (int call = 0; call < calls; ++call) pass_once(rotation_.next());
    return seconds_since(begin);
  }

 private:
  void pass_once(std::size_t set) const {
    const float* read = read_ + set * reads_ * count_;
    float* written = written_ + set * writes_ * count_;
    if (threads_ <= 1) {
      run_(read, written, count_, count_);
      return;
    }
    constexpr std::size_t kRow = 1024;
    const std::size_t part = (count_ / threads_ + kRow - 1) / kRow * kRow;
    parallel_for(threads_, static_cast<int>(threads_), [&](std::size_t i) {
      const std::size_t from = std::min(count_, i * part);
      run_(read + from, written + from, std::min(part, count_ - from), count_);
    });
  }

  MemoryPass run_;
  std::size_t threads_;
  std::size_t count_;
  std::size_t reads_;
  std::size_t writes_;
  Rotation rotation_;
  const float* read_;
  float* written_;
};

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

/// Of the widest cache that the system describes.
double cache_bytes() {
  constexpr double kUsual = 32.0 * (1 << 20);
  constexpr double kKilo = 1024.0;
  double largest = 0.0;
  for (int index = 0; index < 5; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    double size = 0.0;
    char unit = ' ';
    if (file >> size >> unit)
      largest = std::max(largest, size * (unit == 'M' ? kKilo * kKilo : kKilo));
  }
  return largest > 0.0 ? largest : kUsual;
}

double physical_bytes() {
  return static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
         static_cast<double>(::sysconf(_SC_PAGESIZE));
}

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const BackendOptions& options)
      : blas_(load_blas(options.threads)), most_bytes_(options.most_bytes) {
    machine_.backend = "cpu";
    machine_.name = processor_name();
    machine_.multiprocessors = std::max(1, blas_.threads);
    machine_.memory_bytes = physical_bytes();
    machine_.cache_bytes = cache_bytes();
    machine_.facts["blas"] = blas_.name;
    machine_.facts["threads"] = fmt::format("{}", machine_.multiprocessors);
    byte_rate_ = rate({"stream", {{"pass", "copy"}, {"bytes", "16777216"}}});
    flop_rate_ = rate(
        {"gemm", {{"dtype", "fp32"}, {"layout", "nn"}, {"m", "192"}, {"n", "192"}, {"k", "192"}}});
  }

  [[nodiscard]] io::SampledMachine machine() const override { return machine_; }
  [[nodiscard]] double flop_rate() const override { return flop_rate_; }
  [[nodiscard]] double byte_rate() const override { return byte_rate_; }
  [[nodiscard]] std::vector<std::string> formats() const override { return {"fp32"}; }

  [[nodiscard]] std::optional<std::string> lacks(const Probe& probe) const override {
    if (probe.name == "host_copy") return "the processor is the host itself";
    if (probe.name == "collective")
      return "one process has nobody to send to: mpirun -n 2 plansearch calibrate ... starts two";
    return std::nullopt;
  }

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    const Work work = probe_named(point.probe).work(point);
    const Rotation rotation(work.footprint, machine_.cache_bytes, most_bytes_);
    if (point.probe == "stream") {
      return std::make_unique<StreamTrial>(stream_pass(point), work.bytes, machine_.multiprocessors,
                                           rotation, read_, written_);
    }
    if (point.word("dtype") != "fp32") throw Unmeasurable{"only products of fp32"};
    return std::make_unique<GemmTrial>(blas_, point, rotation, read_, written_);
  }

 private:
  /// Of the better of a few calls.
  double rate(const Point& point) {
    const Work work = probe_named(point.probe).work(point);
    const auto trial = prepare(point);
    double best = trial->run(1);
    for (int turn = 0; turn < 3; ++turn) best = std::min(best, trial->run(1));
    return std::max(work.flops > 0.0 ? work.flops : work.bytes, 1.0) / std::max(best, 1e-9);
  }

  Blas blas_;
  double most_bytes_;
  io::SampledMachine machine_;
  double flop_rate_ = 1e9;
  double byte_rate_ = 1e9;
  Buffer read_;
  Buffer written_;
};

/// The same on every rank at once; the slowest counts.
class TogetherTrial final : public Trial {
 public:
  TogetherTrial(const Ranks& ranks, std::unique_ptr<Trial> own)
      : ranks_(ranks), own_(std::move(own)) {}
  double run(int calls) override {
    ranks_.wait_for_all();
    return ranks_.max(own_->run(calls));
  }

 private:
  const Ranks& ranks_;
  std::unique_ptr<Trial> own_;
};

class MessageTrial final : public Trial {
 public:
  MessageTrial(Ranks& ranks, const Point& point, Buffer& read, Buffer& written)
      : ranks_(ranks),
        kind_(point.word("collective")),
        group_(static_cast<int>(point.number("ranks"))),
        bytes_(point.number("bytes")) {
    const auto count = static_cast<std::size_t>(bytes_ / sizeof(float));
    read_ = read.at_least(count);
    written_ = written.at_least(count);
    if (!ranks_.communicate(kind_, group_, read_, written_, bytes_)) {
      throw Unmeasurable{fmt::format("there is no collective '{}'", kind_)};
    }
  }

  double run(int calls) override {
    ranks_.wait_for_all();
    const auto begin = Clock::now();
    for (int call = 0; call < calls; ++call) {
      ranks_.communicate(kind_, group_, read_, written_, bytes_);
    }
    return ranks_.max(seconds_since(begin));
  }

 private:
  Ranks& ranks_;
  std::string kind_;
  int group_;
  double bytes_;
  float* read_;
  float* written_;
};

/// One process a rank, as mpirun started them.
class RankedBackend final : public Backend {
 public:
  RankedBackend(std::unique_ptr<Ranks> ranks, const BackendOptions& options)
      : ranks_(std::move(ranks)), own_(options) {
    machine_ = own_.machine();
    machine_.accelerators = ranks_->size_of_node();
    machine_.memory_bytes /= machine_.accelerators;
    machine_.cache_bytes /= machine_.accelerators;
    machine_.facts["mpi"] = ranks_->library();
    flop_rate_ = ranks_->max(own_.flop_rate());
    byte_rate_ = ranks_->max(own_.byte_rate());
  }

  [[nodiscard]] io::SampledMachine machine() const override { return machine_; }
  [[nodiscard]] double flop_rate() const override { return flop_rate_; }
  [[nodiscard]] double byte_rate() const override { return byte_rate_; }
  [[nodiscard]] std::vector<std::string> formats() const override { return own_.formats(); }
  [[nodiscard]] std::optional<std::string> lacks(const Probe& probe) const override {
    if (probe.name == "collective") return std::nullopt;
    return own_.lacks(probe);
  }
  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    if (point.probe == "collective") {
      return std::make_unique<MessageTrial>(*ranks_, point, read_, written_);
    }
    return std::make_unique<TogetherTrial>(*ranks_, own_.prepare(point));
  }
  [[nodiscard]] double now() const override { return ranks_->max(Backend::now()); }
  [[nodiscard]] int ranks() const override { return ranks_->size(); }
  [[nodiscard]] bool is_first() const override { return ranks_->rank() == 0; }
  [[nodiscard]] std::string shared(std::string text) const override {
    return ranks_->share(std::move(text));
  }

 private:
  std::unique_ptr<Ranks> ranks_;
  CpuBackend own_;
  io::SampledMachine machine_;
  double flop_rate_ = 0.0;
  double byte_rate_ = 0.0;
  Buffer read_;
  Buffer written_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu(const BackendOptions& options, const ShippedData& /*data*/) {
  auto ranks = Ranks::join();
  if (!ranks) return std::make_unique<CpuBackend>(options);
  BackendOptions own = options;
  const double share = 1.0 / ranks->size_of_node();
  const auto processors = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (own.threads == 0) own.threads = std::max(1, static_cast<int>(processors * share));
  own.most_bytes *= share;
  return std::make_unique<RankedBackend>(std::move(ranks), own);
}

}  // namespace plansearch::calibrate
