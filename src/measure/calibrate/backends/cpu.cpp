// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>

#include "measure/calibrate/backend.hpp"
#include "measure/calibrate/backends/cpu_trials.hpp"
#include "measure/calibrate/probe.hpp"
#include "measure/calibrate/processes/processes.hpp"

namespace plansearch::calibrate {
namespace {

/// Messages between processes, by MPI. Throws Unmeasurable for a collective that is not known.
std::unique_ptr<Trial> cpu_message(MpiProcesses& processes, const Point& point, CpuBuffer& read,
                                   CpuBuffer& written) {
  const std::string kind = point.word("collective");
  const double bytes = point.number("bytes");
  const auto count = static_cast<std::size_t>(bytes / sizeof(float));
  const auto call = [=, &processes, group = message_group(point), from = read.at_least(count),
                     to = written.at_least(count)] {
    return processes.communicate(kind, group, from, to, bytes);
  };
  if (!call()) throw Unmeasurable{fmt::format("there is no collective '{}'", kind)};
  return clocked(call);
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

/// Size of the widest cache that the system describes.
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
  /// `processes` is null where there is one; those that are not of MPI send no messages.
  CpuBackend(const BackendOptions& options, std::shared_ptr<Processes> processes)
      : processes_(std::move(processes)),
        messages_(dynamic_cast<MpiProcesses*>(processes_.get())),
        blas_(load_blas(options.threads)),
        most_bytes_(options.most_bytes) {
    const double sharing = processes_ ? processes_->size_of_node() : 1;
    machine_.backend = "cpu";
    machine_.name = processor_name();
    machine_.multiprocessors = std::max(1, blas_.threads);
    machine_.memory_bytes = physical_bytes() / sharing;
    machine_.cache_bytes = cache_ / sharing;
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
    if (probe.name == "launch") return "calls on a processor are part of what they do";
    if (probe.name == "overlap") return "products and messages run on the same cores";
    if (probe.name == "attention") return "processors have no library of fused attention";
    if (probe.name != "collective" || messages_ != nullptr) return std::nullopt;
    return processes_ ? "messages between processors need Open MPI's mpirun"
                      : "one process has nobody to send to: mpirun -n 2 plansearch calibrate ... "
                        "starts two";
  }

  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    const Work work = probe_named(point.probe).work(point);
    const CpuPlace place{blas_, machine_.multiprocessors,
                         Rotation(work.footprint, cache_, most_bytes_), read_, written_};
    if (point.probe == "stream") return cpu_pass(place, point);
    if (point.probe == "collective" && messages_ != nullptr) {
      return cpu_message(*messages_, point, read_, written_);
    }
    return cpu_product(place, point);
  }

 private:
  /// Rate of the best of a few calls.
  double rate(const Point& point) {
    const Work work = probe_named(point.probe).work(point);
    const auto trial = prepare(point);
    double best = trial->run(1);
    for (int turn = 0; turn < 3; ++turn) best = std::min(best, trial->run(1));
    return std::max(work.flops > 0.0 ? work.flops : work.bytes, 1.0) / std::max(best, 1e-9);
  }

  std::shared_ptr<Processes> processes_;
  MpiProcesses* messages_;
  Blas blas_;
  double most_bytes_;
  double cache_ = cache_bytes();
  io::SampledMachine machine_;
  double flop_rate_ = 1e9;
  double byte_rate_ = 1e9;
  CpuBuffer read_;
  CpuBuffer written_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu(const BackendOptions& options, const ShippedData& /*data*/) {
  const std::shared_ptr<Processes> processes = join_processes(options.on_loss);
  if (!processes) return std::make_unique<CpuBackend>(options, nullptr);
  BackendOptions own = options;
  const double share = 1.0 / processes->size_of_node();
  const auto processors = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  if (own.threads == 0) own.threads = std::max(1, static_cast<int>(processors * share));
  own.most_bytes *= share;
  return together(processes, std::make_unique<CpuBackend>(own, processes));
}

}  // namespace plansearch::calibrate
