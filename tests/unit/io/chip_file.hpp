// SPDX-License-Identifier: Apache-2.0
// A small accelerator's file with a section that a test adds.
#pragma once

#include <array>
#include <filesystem>
#include <string>

#include "io/hardware/profile_reader.hpp"
#include "support/source_directory.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::test {

inline const std::array<std::filesystem::path, 1>& shipped_hardware() {
  static const std::array<std::filesystem::path, 1> kShipped = {
      std::filesystem::path(PLANSEARCH_SOURCE_DIR) / "hardware_profiles"};
  return kShipped;
}

inline Accelerator chip_with(const std::string& section) {
  const TemporaryDirectory dir;
  const std::filesystem::path file =
      dir.write("chip.yaml",
                "schema: plansearch/accelerator/v1\nname: chip\nmemory: 80 GB\n"
                "memory_bandwidth: 2 TB/s\nmultiprocessors: 100\npeak: {bf16: 300 TFLOP/s}\n" +
                    section);
  return io::load_accelerator(file.string(), shipped_hardware());
}

}  // namespace plansearch::test
