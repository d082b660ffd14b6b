// SPDX-License-Identifier: Apache-2.0
// Where probes run: a processor, an accelerator, a model with known truth, or recorded tables.
#pragma once

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/calibrate/probe.hpp"
#include "measure/calibrate/processes/processes.hpp"
#include "measure/sample_file.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch::calibrate {

struct BackendOptions {
  std::string truth{};              ///< synthetic: the profile that answers; empty: dgx-h100
  double noise = 0.03;              ///< synthetic: standard deviation of ln(time) of a block
  double wild = 0.0;                ///< synthetic: share of points that are far off
  std::uint64_t seed = 1;           ///< synthetic
  std::vector<std::string> tables;  ///< replay: CSV as for `validate`
  int threads = 0;                  ///< cpu; 0: those of the BLAS library
  double most_bytes = 0.0;          ///< of all buffers together
  /// Called, from any thread, with the process that ended before its time; must not return.
  std::function<void(const std::string&)> on_loss;
};

/// One point, ready to run.
class Trial : public NotCopied {
 public:
  /// Seconds that so many calls take one after the other.
  virtual double run(int calls) = 0;
};

/// A trial of which a function runs and times so many calls.
template <typename Run>
[[nodiscard]] std::unique_ptr<Trial> trial_of(Run run) {
  class Of final : public Trial {
   public:
    explicit Of(Run run) : run_(std::move(run)) {}
    double run(int calls) override { return run_(calls); }

   private:
    Run run_;
  };
  return std::make_unique<Of>(std::move(run));
}

/// Why a point or a device cannot be measured; thrown.
struct Unmeasurable {
  std::string reason;
  std::string remedy{};
};

/// A library that is loaded at run time, the first of some files: the program starts without it.
class SharedLibrary {
 public:
  /// Throws `missing` where none of the files is there.
  SharedLibrary(std::string name, const std::vector<std::string>& files,
                const Unmeasurable& missing, int scope = RTLD_GLOBAL)
      : name_(std::move(name)) {
    for (const std::string& file : files) {
      handle_ = ::dlopen(file.c_str(), RTLD_NOW | scope);
      if (handle_ != nullptr) return;
    }
    throw missing;
  }

  /// The address of a function or variable, which becomes a pointer of the wanted type.
  struct Address {
    void* place;
    template <typename T>
    operator T*() const {  // NOLINT(google-explicit-constructor)
      return reinterpret_cast<T*>(place);
    }
  };
  /// Throws Unmeasurable for a name that the library does not have.
  [[nodiscard]] Address operator[](const char* name) const {
    void* place = ::dlsym(handle_, name);
    if (place == nullptr) throw Unmeasurable{fmt::format("{} has no {}", name_, name)};
    return {place};
  }

 private:
  std::string name_;
  void* handle_ = nullptr;
};

class Backend : public NotCopied {
 public:
  [[nodiscard]] virtual io::SampledMachine machine() const = 0;
  /// Rough rates, for grids and estimates.
  [[nodiscard]] virtual double flop_rate() const = 0;
  [[nodiscard]] virtual double byte_rate() const = 0;
  /// Formats of products.
  [[nodiscard]] virtual std::vector<std::string> formats() const = 0;
  /// Why none of the points of a probe can be measured; nothing: they can.
  [[nodiscard]] virtual std::optional<std::string> lacks(const Probe& probe) const = 0;
  /// Throws Unmeasurable.
  [[nodiscard]] virtual std::unique_ptr<Trial> prepare(const Point& point) = 0;
  /// The points that exist where they are not a grid's.
  [[nodiscard]] virtual std::optional<std::vector<Point>> recorded(const Probe& /*probe*/) const {
    return std::nullopt;
  }
  /// Why nothing more can be measured by this process, asked after a point that failed.
  [[nodiscard]] virtual std::optional<std::string> broken() { return std::nullopt; }
  /// State of the device right after a point; empty where it reports none.
  [[nodiscard]] virtual io::SampleState state() { return {}; }
  /// Seconds on the clock that a budget is counted by.
  [[nodiscard]] virtual double now() const;
  /// Ranks of all nodes; several processes take every decision alike, and the first of them writes.
  [[nodiscard]] virtual int ranks() const { return machine().accelerators; }
  [[nodiscard]] virtual bool is_first() const { return true; }
  /// The text of the first process.
  [[nodiscard]] virtual std::string shared(std::string text) const { return text; }
};

using MakeBackend = std::unique_ptr<Backend>(const BackendOptions& options,
                                             const ShippedData& data);
struct BackendRow {
  std::string_view name;
  std::string_view help;
  MakeBackend* make;
};

[[nodiscard]] std::span<const BackendRow> backends();
/// Throws Unmeasurable where the machine has no such device, InputError for wrong options.
[[nodiscard]] std::unique_ptr<Backend> make_backend(std::string_view name,
                                                    const BackendOptions& options,
                                                    const ShippedData& data);

/// Operands move on with every call, through more memory than the caches hold.
class Rotation {
 public:
  /// Sets of `footprint` bytes: twice the cache, within `most`.
  Rotation(double footprint, double cache, double most) {
    constexpr double kMostSets = 4096.0;
    const double wanted = footprint <= 0.0 ? 1.0 : std::ceil(2.0 * cache / footprint);
    sets_ = static_cast<std::size_t>(
        std::clamp(std::min(wanted, std::floor(most / std::max(footprint, 1.0))), 1.0, kMostSets));
  }
  [[nodiscard]] std::size_t sets() const { return sets_; }
  std::size_t next() { return turn_++ % sets_; }

 private:
  std::size_t sets_ = 1;
  std::size_t turn_ = 0;
};

// The functions of the rows of `backends()`.
MakeBackend make_cpu, make_cuda, make_synthetic, make_replay;

/// `own` measures on this process. A probe that one process cannot measure is measured by none.
[[nodiscard]] std::unique_ptr<Backend> together(std::shared_ptr<Processes> processes,
                                                std::unique_ptr<Backend> own);

}  // namespace plansearch::calibrate
