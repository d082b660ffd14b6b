// SPDX-License-Identifier: Apache-2.0
// Adds lines to a file of samples, each by one write.
#pragma once

#include <string>
#include <string_view>

#include "io/document/file.hpp"
#include "io/tables/sample_file.hpp"

namespace plansearch::calibrate {

class SampleWriter {
 public:
  /// Opens or makes the file. What a killed run left of its last line is cut off; a file of another
  /// machine or back end is an InputError, and so is one that cannot be written.
  SampleWriter(std::string path, const io::SampledMachine& machine, std::string_view date);

  /// Samples of earlier runs.
  [[nodiscard]] const std::vector<io::Sample>& before() const { return old_.samples; }
  void add(const io::Sample& sample);

 private:
  void write(std::string_view line);

  std::string path_;
  io::SampleFile old_;
  io::Descriptor file_;
};

}  // namespace plansearch::calibrate
