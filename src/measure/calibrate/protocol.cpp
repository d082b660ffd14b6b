// SPDX-License-Identifier: Apache-2.0
// Computes: the time of a call: median over blocks of calls, and how far blocks scatter.
// Source: robust statistics (median, median absolute deviation).
// Assumes: blocks of one point are alike; those beyond five robust deviations are flagged and kept.
// Units: seconds inside, microseconds in samples.
// Checked by: tests/unit/measure/calibrate/protocol_test.cpp
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>

#include "evidence/evidence.hpp"
#include "measure/calibrate/session.hpp"
#include "measure/fit/fit_tables.hpp"
#include "plansearch/error.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::calibrate {
namespace {

constexpr int kAgreeing = 3;
constexpr double kAgreement = 0.02;
constexpr double kFar = 5.0;
constexpr double kUnstable = 0.1;
constexpr int kMostCalls = 1000;
constexpr double kMicro = 1e6;

/// Seconds a call once a row of times agree, or the time for that is over.
double warm_up(Trial& trial, const Protocol& protocol) {
  std::vector<double> times;
  double spent = 0.0;
  while (spent < protocol.longest_warm_up) {
    const double time = trial.run(1);
    if (!std::isfinite(time) || time <= 0.0) return time;
    spent += time;
    times.push_back(time);
    if (times.size() < kAgreeing) continue;
    const auto last = times.end() - kAgreeing;
    const auto [low, high] = std::minmax_element(last, times.end());
    if (*high <= *low * (1.0 + kAgreement)) break;
  }
  const std::size_t recent = std::min<std::size_t>(times.size(), kAgreeing);
  return median({times.end() - static_cast<std::ptrdiff_t>(recent), times.end()});
}

int calls_of(double call, double block) {
  return static_cast<int>(std::clamp(std::round(block / call), 1.0, double{kMostCalls}));
}

void summarise(io::Sample& sample) {
  const Scatter scatter = scatter_of(sample.blocks_us);
  sample.time_us = scatter.middle;
  sample.spread = scatter.deviation / scatter.middle;
  const double far = kFar * std::max(scatter.deviation, kAgreement * scatter.middle);
  const auto outliers =
      std::ranges::count_if(scatter.distances, [&](double distance) { return distance > far; });
  if (outliers > 0) sample.flags.push_back(fmt::format("outliers {}", outliers));
  if (sample.spread > kUnstable) sample.flags.emplace_back("unstable");
  for (const std::string& reason : sample.state.slowed) sample.flags.push_back("slowed: " + reason);
}

constexpr double kLeastBand = 0.1;

std::string part_of(TableKind kind, const KernelRow& row) {
  if (kind == TableKind::Matmul) return "matmul " + io::word_in(row.cells, "dtype");
  if (kind == TableKind::Stream) return "passes over memory";
  if (kind == TableKind::Attention) return "attention " + io::word_in(row.cells, "direction");
  return fmt::format("{} over {} ranks", io::word_in(row.cells, "collective"),
                     io::word_in(row.cells, "gpus"));
}

/// Residual of a class in the profile; nothing: not measured.
std::optional<Residual> residual_of(TableKind kind, const KernelRow& row, const Cluster& profile) {
  if (kind == TableKind::Matmul) {
    const auto type = parse_data_type(io::word_in(row.cells, "dtype"));
    if (!type) return std::nullopt;
    const auto& curve = profile.accelerator.kernels.matmul.at(static_cast<std::size_t>(*type));
    return curve ? curve->residual : std::nullopt;
  }
  if (kind != TableKind::Collective) return std::nullopt;
  return std::visit([](const auto& curve) { return curve.residual; }, profile.tiers.front().curve);
}

struct Class {
  std::vector<double> logs;
  std::optional<Residual> residual;
};

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw InputError({path, 0, 0}, fmt::format("{}: {}", what, std::strerror(errno)),
                   "the samples before it are kept; free space or name another file with --out");
}

void require_same(const std::string& path, const io::SampledMachine& old,
                  const io::SampledMachine& now) {
  if (old.backend == now.backend && old.name == now.name &&
      old.multiprocessors == now.multiprocessors) {
    return;
  }
  throw InputError({path, 1, 1},
                   fmt::format("the file holds samples of {} ({}), this machine is {} ({})",
                               old.name, old.backend, now.name, now.backend),
                   "name another file with --out");
}

io::SampleFile read_old(const std::string& path, const io::SampledMachine& machine) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  io::SampleFile old = io::parse_samples(io::read_file(path, io::kLargestSampleFile), path);
  if (old.whole_bytes > 0) require_same(path, old.machine, machine);
  return old;
}

/// At the end of the last whole line.
io::Descriptor open_to_add(const std::string& path, const io::SampleFile& old) {
  io::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.valid()) fail(path, "cannot write the file");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) fail(path, "another run writes the file");
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error) &&
      ::ftruncate(file.get(), static_cast<off_t>(old.whole_bytes)) != 0) {
    fail(path, "cannot remove the last line of a killed run");
  }
  return file;
}

}  // namespace

double Protocol::cost(double call) const {
  const double block_time = call * calls_of(call, block);
  return std::max(kAgreeing * call, std::min(longest_warm_up, 10.0 * call)) + blocks * block_time;
}

io::Sample measure(Backend& backend, const Point& point, const Protocol& protocol) {
  io::Sample sample{.probe = std::string(point.probe), .cells = point.cells};
  try {
    const auto trial = backend.prepare(point);
    const double call = warm_up(*trial, protocol);
    const bool usable = std::isfinite(call) && call > 0.0;
    for (int block = 0; usable && block < protocol.blocks; ++block) {
      check_stop();
      const int calls = calls_of(call, protocol.block);
      sample.blocks_us.push_back(trial->run(calls) / calls * kMicro);
    }
    if (usable) sample.state = backend.state();
    const bool whole = std::ranges::all_of(
        sample.blocks_us, [](double time) { return std::isfinite(time) && time > 0.0; });
    if (usable && whole) {
      summarise(sample);
    } else {
      sample.blocks_us.clear();
      sample.failed = "the clock or the device returned no time";
    }
  } catch (const Unmeasurable& unmeasurable) {
    sample.blocks_us.clear();
    sample.failed = unmeasurable.reason;
  }
  return sample;
}

bool Drift::drifted() const {
  return std::abs(std::log(ratio / expected)) > band;
}

std::vector<SlowRank> slow_ranks(const io::SampledMachine& machine,
                                 const std::vector<io::Sample>& samples) {
  std::map<std::string, std::map<std::size_t, std::vector<double>>> ratios;
  std::map<std::string, std::size_t> points;
  for (const io::Sample& sample : samples) {
    const auto rank = sample.state.values.find("slowest_rank");
    const auto ratio = sample.state.values.find("slowest_over_middle");
    if (!sample.time_us || rank == sample.state.values.end() || ratio == sample.state.values.end())
      continue;
    const std::string part = sample.probe == "collective" ? "messages" : "kernels";
    ++points[part];
    ratios[part][static_cast<std::size_t>(rank->second)].push_back(ratio->second);
  }
  std::vector<SlowRank> found;
  for (const auto& [part, by_rank] : ratios) {
    for (const auto& [rank, all] : by_rank) {
      const double ratio = median(all);
      if (2 * all.size() <= points[part] || std::log(ratio) <= kLeastBand) continue;
      const auto where = machine.facts.find(fmt::format("rank {}", rank));
      found.push_back({part, rank, where == machine.facts.end() ? std::string() : where->second,
                       ratio, all.size()});
    }
  }
  return found;
}

std::vector<Drift> drifts(const io::SampledMachine& machine, const std::vector<io::Sample>& samples,
                          const Cluster& profile) {
  const KernelProfiles only{[&](std::string_view) { return profile.accelerator; },
                            [&](std::string_view) { return profile; },
                            [&] { return std::vector<Cluster>{profile}; }};
  io::SampleFile file{.file = "samples", .machine = machine, .samples = samples};
  std::map<std::string, Class> classes;
  for (const KernelTable& table : tables_of(file, profile.name)) {
    for (const KernelRow& row : predict_kernels(table.table, table.kind, only)) {
      if (!row.measured || !row.predicted) continue;
      Class& own = classes[part_of(table.kind, row)];
      own.logs.push_back(std::log(*row.measured / *row.predicted));
      own.residual = residual_of(table.kind, row, profile);
    }
  }
  std::vector<Drift> found;
  for (const auto& [part, own] : classes) {
    Drift drift{part, own.logs.size(), std::exp(median(own.logs))};
    drift.band = std::max(kLeastBand, 2.0 * profile.unmeasured_sigma);
    if (own.residual) {
      drift.expected = std::exp(own.residual->p50);
      drift.band = std::max(kLeastBand, 0.5 * (own.residual->p90 - own.residual->p10));
    }
    found.push_back(drift);
  }
  return found;
}

SampleWriter::SampleWriter(std::string path, const io::SampledMachine& machine,
                           std::string_view date)
    : path_(std::move(path)), old_(read_old(path_, machine)), file_(open_to_add(path_, old_)) {
  if (old_.whole_bytes == 0) write(io::machine_line(machine, date));
}

void SampleWriter::add(const io::Sample& sample) {
  write(io::sample_line(sample));
}

void SampleWriter::write(std::string_view line) {
  if (!io::write_all(file_.get(), line)) fail(path_, "cannot write a sample");
}

}  // namespace plansearch::calibrate
