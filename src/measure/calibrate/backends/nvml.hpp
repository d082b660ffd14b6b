// SPDX-License-Identifier: Apache-2.0
// Facts and states of GPUs from the driver's management library (NVML), loaded at run time.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "measure/sample_file.hpp"

namespace plansearch::calibrate {

class Nvml {
 public:
  /// GPUs by their addresses on the PCI bus. Null where the library is not on this machine.
  [[nodiscard]] static std::unique_ptr<Nvml> open(const std::vector<std::string>& bus_ids);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// driver; "gpu 0": name, identity, power limit, highest clock, NVLinks; topology: how each pair
  /// is joined, in the words of nvidia-smi topo.
  [[nodiscard]] std::map<std::string, std::string> facts() const;
  /// Clocks, power, temperature of one of them now, and why it is slowed.
  [[nodiscard]] io::SampleState state(std::size_t gpu) const;

 private:
  struct Library;
  Nvml();
  std::unique_ptr<Library> library_;
};

/// The words of a mask of nvmlClocksEventReasons, without "idle".
[[nodiscard]] std::vector<std::string> slowing_reasons(unsigned long long mask);

}  // namespace plansearch::calibrate
