// SPDX-License-Identifier: Apache-2.0
// No header of NVML is needed: its functions are declared here as its documentation lists them.
#include "measure/calibrate/backends/nvml.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "measure/calibrate/backend.hpp"

namespace plansearch::calibrate {
namespace {

using Device = void*;
constexpr int kSuccess = 0;
constexpr unsigned kTextSize = 96;
constexpr int kClockSm = 1;
constexpr int kClockMemory = 2;
constexpr int kSensorGpu = 0;
constexpr double kMilli = 1e-3;

struct Reason {
  unsigned long long bit;
  std::string_view word;
};
constexpr std::array kReasons{Reason{0x2, "application clocks"}, Reason{0x4, "power limit"},
                              Reason{0x8, "hardware slowdown"},  Reason{0x10, "sync boost"},
                              Reason{0x20, "software thermal"},  Reason{0x40, "hardware thermal"},
                              Reason{0x80, "power brake"},       Reason{0x100, "display clocks"}};

struct Joint {
  int level;
  std::string_view word;
};
/// nvmlGpuTopologyLevel, as nvidia-smi topo writes them.
constexpr std::array kJoints{Joint{0, "X"},    Joint{10, "PIX"},  Joint{20, "PXB"},
                             Joint{30, "PHB"}, Joint{40, "NODE"}, Joint{50, "SYS"}};

}  // namespace

/// All of its functions, or none is used.
struct Nvml::Library {
  SharedLibrary file{"libnvidia-ml.so.1", {"libnvidia-ml.so.1"}, {"NVML is not there"}, RTLD_LOCAL};
  int (*init)() = file["nvmlInit_v2"];
  int (*shutdown)() = file["nvmlShutdown"];
  int (*driver)(char*, unsigned) = file["nvmlSystemGetDriverVersion"];
  int (*handle)(const char*, Device*) = file["nvmlDeviceGetHandleByPciBusId_v2"];
  int (*name)(Device, char*, unsigned) = file["nvmlDeviceGetName"];
  int (*identity)(Device, char*, unsigned) = file["nvmlDeviceGetUUID"];
  int (*clock)(Device, int, unsigned*) = file["nvmlDeviceGetClockInfo"];
  int (*highest_clock)(Device, int, unsigned*) = file["nvmlDeviceGetMaxClockInfo"];
  int (*power)(Device, unsigned*) = file["nvmlDeviceGetPowerUsage"];
  int (*power_limit)(Device, unsigned*) = file["nvmlDeviceGetEnforcedPowerLimit"];
  int (*temperature)(Device, int, unsigned*) = file["nvmlDeviceGetTemperature"];
  int (*reasons)(Device, unsigned long long*) = file["nvmlDeviceGetCurrentClocksThrottleReasons"];
  int (*ancestor)(Device, Device, int*) = file["nvmlDeviceGetTopologyCommonAncestor"];
  int (*link)(Device, unsigned, int*) = file["nvmlDeviceGetNvLinkState"];
  std::vector<Device> devices{};

  [[nodiscard]] std::string text(int (*read)(Device, char*, unsigned), Device device) const {
    std::array<char, kTextSize> text{};
    return read(device, text.data(), kTextSize) == kSuccess ? std::string(text.data())
                                                            : std::string("unknown");
  }

  [[nodiscard]] int links(Device device) const {
    constexpr unsigned kMost = 36;
    int count = 0;
    for (unsigned index = 0; index < kMost; ++index) {
      int active = 0;
      if (link(device, index, &active) == kSuccess && active != 0) ++count;
    }
    return count;
  }

  [[nodiscard]] std::string describe(Device device) const {
    unsigned limit = 0;
    unsigned highest = 0;
    std::string about = fmt::format("{}, {}", text(name, device), text(identity, device));
    if (power_limit(device, &limit) == kSuccess) about += fmt::format(", {:.0f} W", kMilli * limit);
    if (highest_clock(device, kClockSm, &highest) == kSuccess) {
      about += fmt::format(", {} MHz", highest);
    }
    return about + fmt::format(", {} NVLinks", links(device));
  }

  /// "0-1 NV18, 0-2 SYS": by NVLink where both have links, else the PCI path.
  [[nodiscard]] std::string topology() const {
    std::vector<std::string> pairs;
    for (std::size_t one = 0; one < devices.size(); ++one) {
      for (std::size_t other = one + 1; other < devices.size(); ++other) {
        const int shared = std::min(links(devices[one]), links(devices[other]));
        int level = -1;
        std::string word = "unknown";
        if (shared > 0) {
          word = fmt::format("NV{}", shared);
        } else if (ancestor(devices[one], devices[other], &level) == kSuccess) {
          for (const Joint& joint : kJoints) {
            if (joint.level == level) word = joint.word;
          }
        }
        pairs.push_back(fmt::format("{}-{} {}", one, other, word));
      }
    }
    return fmt::format("{}", fmt::join(pairs, ", "));
  }
};

Nvml::Nvml() : library_(std::make_unique<Library>()) {
  if (library_->init() != kSuccess) throw Unmeasurable{"NVML does not start"};
}

Nvml::~Nvml() {
  library_->shutdown();
}

std::unique_ptr<Nvml> Nvml::open(const std::vector<std::string>& bus_ids) {
  try {
    std::unique_ptr<Nvml> nvml(new Nvml());
    for (const std::string& bus_id : bus_ids) {
      Device device = nullptr;
      if (nvml->library_->handle(bus_id.c_str(), &device) != kSuccess) return nullptr;
      nvml->library_->devices.push_back(device);
    }
    return nvml;
  } catch (const Unmeasurable&) {  // clocks and power are not recorded
    return nullptr;
  }
}

std::map<std::string, std::string> Nvml::facts() const {
  std::map<std::string, std::string> facts;
  std::array<char, kTextSize> version{};
  if (library_->driver(version.data(), kTextSize) == kSuccess) facts["driver"] = version.data();
  for (std::size_t i = 0; i < library_->devices.size(); ++i) {
    facts[fmt::format("gpu {}", i)] = library_->describe(library_->devices[i]);
  }
  if (library_->devices.size() > 1) facts["topology"] = library_->topology();
  return facts;
}

io::SampleState Nvml::state(std::size_t gpu) const {
  const Device device = library_->devices.at(gpu);
  io::SampleState state;
  unsigned value = 0;
  if (library_->clock(device, kClockSm, &value) == kSuccess) state.values["clock_mhz"] = value;
  if (library_->clock(device, kClockMemory, &value) == kSuccess) {
    state.values["memory_clock_mhz"] = value;
  }
  if (library_->power(device, &value) == kSuccess) state.values["power_w"] = kMilli * value;
  if (library_->temperature(device, kSensorGpu, &value) == kSuccess) {
    state.values["temperature_c"] = value;
  }
  unsigned long long mask = 0;
  if (library_->reasons(device, &mask) == kSuccess) state.slowed = slowing_reasons(mask);
  return state;
}

std::vector<std::string> slowing_reasons(unsigned long long mask) {
  std::vector<std::string> words;
  for (const Reason& reason : kReasons) {
    if ((mask & reason.bit) != 0) words.emplace_back(reason.word);
  }
  return words;
}

}  // namespace plansearch::calibrate
