// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/backend.hpp"

#include <fmt/ranges.h>

#include <array>
#include <chrono>

#include "base/units.hpp"
#include "evidence/evidence.hpp"
#include "plansearch/error.hpp"

namespace plansearch::calibrate {
namespace {

/// The first reason of any process, with its rank where not all have the same; empty: none has one.
std::string first_reason(Processes& processes, const std::string& own) {
  const std::vector<std::string> all = processes.texts(own);
  const bool same =
      std::ranges::all_of(all, [&](const std::string& text) { return text == all.front(); });
  if (same) return all.front();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) return fmt::format("rank {}: {}", rank, all[rank]);
  }
  return {};
}

/// Who took longest, and how much longer than the middle one.
struct Slowest {
  std::size_t rank = 0;
  double over_middle = 1.0;
};

/// Text of a process about a block: a letter, then its time or why there is none.
constexpr char kTime = 't';
constexpr char kReason = 'r';

std::string outcome(Trial& trial, int calls) {
  try {
    const double time = trial.run(calls);
    // A rank outside the one group that is measured takes no time.
    if (std::isfinite(time) && time >= 0.0) return fmt::format("{}{:.17g}", kTime, time);
    return std::string(1, kReason) + "the clock or the device returned no time";
  } catch (const Unmeasurable& unmeasurable) {
    return kReason + unmeasurable.reason;
  }
}

class TogetherTrial final : public Trial {
 public:
  TogetherTrial(Processes& processes, std::unique_ptr<Trial> own, Slowest& slowest)
      : processes_(processes), own_(std::move(own)), slowest_(slowest) {}

  /// A rank whose clock or device gives nothing usable gives nothing for all.
  double run(int calls) override {
    processes_.wait_for_all();
    const std::vector<std::string> all = processes_.texts(outcome(*own_, calls));
    std::vector<double> times;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank].front() == kReason) {
        throw Unmeasurable{fmt::format("rank {}: {}", rank, all[rank].substr(1))};
      }
      times.push_back(parse_number(all[rank].substr(1)).value_or(0.0));
    }
    const auto longest = std::ranges::max_element(times);
    const double time = *longest;
    slowest_.rank = static_cast<std::size_t>(longest - times.begin());
    slowest_.over_middle = time / std::max(median(std::move(times)), 1e-12);
    return time;
  }

 private:
  Processes& processes_;
  std::unique_ptr<Trial> own_;
  Slowest& slowest_;
};

class TogetherBackend final : public Backend {
 public:
  TogetherBackend(std::shared_ptr<Processes> processes, std::unique_ptr<Backend> own)
      : processes_(std::move(processes)), own_(std::move(own)), machine_(own_->machine()) {
    machine_.accelerators = processes_->size_of_node();
    machine_.facts["processes"] =
        fmt::format("{} by {}", processes_->size(), processes_->launcher());
    require_alike();
    name_ranks();
    flop_rate_ = processes_->max(own_->flop_rate());
    byte_rate_ = processes_->max(own_->byte_rate());
  }

  [[nodiscard]] io::SampledMachine machine() const override { return machine_; }
  [[nodiscard]] double flop_rate() const override { return flop_rate_; }
  [[nodiscard]] double byte_rate() const override { return byte_rate_; }
  [[nodiscard]] std::vector<std::string> formats() const override { return own_->formats(); }
  [[nodiscard]] std::optional<std::string> lacks(const Probe& probe) const override {
    const std::string reason = first_reason(*processes_, own_->lacks(probe).value_or(""));
    if (reason.empty()) return std::nullopt;
    return reason;
  }
  [[nodiscard]] std::unique_ptr<Trial> prepare(const Point& point) override {
    std::unique_ptr<Trial> trial;
    std::string reason;
    try {
      trial = own_->prepare(point);
    } catch (const Unmeasurable& unmeasurable) {
      reason = unmeasurable.reason;
    }
    if (processes_->max(reason.empty() ? 0.0 : 1.0) > 0.0) {
      throw Unmeasurable{first_reason(*processes_, reason)};
    }
    return std::make_unique<TogetherTrial>(*processes_, std::move(trial), slowest_);
  }
  [[nodiscard]] std::optional<std::string> broken() override {
    const std::string reason = first_reason(*processes_, own_->broken().value_or(""));
    if (reason.empty()) return std::nullopt;
    return reason;
  }
  /// State of the first process; all may say why they are slowed.
  [[nodiscard]] io::SampleState state() override {
    io::SampleState state = own_->state();
    const std::string own = fmt::format("{}", fmt::join(state.slowed, "; "));
    const std::string reason = first_reason(*processes_, own);
    state.slowed.clear();
    if (!reason.empty()) state.slowed.push_back(reason);
    state.values["slowest_rank"] = static_cast<double>(slowest_.rank);
    state.values["slowest_over_middle"] = slowest_.over_middle;
    return state;
  }
  [[nodiscard]] double now() const override { return processes_->max(Backend::now()); }
  [[nodiscard]] int ranks() const override { return processes_->size(); }
  [[nodiscard]] bool is_first() const override { return processes_->rank() == 0; }
  [[nodiscard]] std::string shared(std::string text) const override {
    return processes_->share(text);
  }

 private:
  /// One profile describes one kind of accelerator.
  void require_alike() {
    const std::vector<std::string> names = processes_->texts(machine_.name);
    for (std::size_t rank = 1; rank < names.size(); ++rank) {
      if (names[rank] == names.front()) continue;
      throw Unmeasurable{fmt::format("the processes have different accelerators: rank 0 {}, rank "
                                     "{} {}",
                                     names.front(), rank, names[rank]),
                         "measure one kind at a time"};
    }
  }

  /// Where each process runs, for whoever looks for a slow one.
  void name_ranks() {
    const auto gpu = machine_.facts.find("gpu 0");
    const std::string own =
        gpu == machine_.facts.end() ? own_host() : fmt::format("{}: {}", own_host(), gpu->second);
    const std::vector<std::string> all = processes_->texts(own);
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      machine_.facts[fmt::format("rank {}", rank)] = all[rank];
    }
  }

  std::shared_ptr<Processes> processes_;
  std::unique_ptr<Backend> own_;
  Slowest slowest_;
  io::SampledMachine machine_;
  double flop_rate_ = 0.0;
  double byte_rate_ = 0.0;
};

}  // namespace

double Backend::now() const {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

std::span<const BackendRow> backends() {
  static constexpr std::array kBackends{
      BackendRow{"cpu", "this processor: a CBLAS library and loops over memory", make_cpu},
      BackendRow{"cuda",
                 "NVIDIA GPUs: cuBLASLt, cuDNN, memory and copies, NCCL, clocks and power by NVML",
                 make_cuda},
      BackendRow{"synthetic", "a profile with noise: what a fit should find is known",
                 make_synthetic},
      BackendRow{"replay", "times of CSV tables, as for validate", make_replay}};
  return kBackends;
}

std::unique_ptr<Backend> make_backend(std::string_view name, const BackendOptions& options,
                                      const ShippedData& data) {
  std::vector<std::string_view> known;
  for (const BackendRow& row : backends()) {
    if (row.name == name) return row.make(options, data);
    known.push_back(row.name);
  }
  throw InputError({}, fmt::format("there is no back end '{}'", name),
                   fmt::format("one of {}", fmt::join(known, ", ")));
}

std::unique_ptr<Backend> together(std::shared_ptr<Processes> processes,
                                  std::unique_ptr<Backend> own) {
  return std::make_unique<TogetherBackend>(std::move(processes), std::move(own));
}

}  // namespace plansearch::calibrate
