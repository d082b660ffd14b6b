// SPDX-License-Identifier: Apache-2.0
#include "calibrate/backends/cpu_facts.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace plansearch::calibrate {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "processor";
}

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

}  // namespace plansearch::calibrate
