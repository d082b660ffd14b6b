// SPDX-License-Identifier: Apache-2.0
// A hardware profile with rates and a site of its own, from measured runs, kernels and messages.
#pragma once

#include <string>
#include <vector>

#include "plansearch/report.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

struct FitRequest {
  std::vector<std::string>
      tables;         ///< samples; CSV of runs, kernels, collectives; logs of nccl-tests
  std::string base;   ///< profile that is like the machine; empty: samples describe it
  std::string fresh;  ///< name of the new profile; empty: the stem of `out`
  std::string out;    ///< the profile to write
  int threads = 1;
  Format format = Format::Table;  ///< of the report
};

struct FitAnswer {
  std::string report;   ///< what was seen and what follows
  std::string profile;  ///< the text of the new profile; empty: refused, `report` says why
  std::string plot;     ///< SVG of kernels and links
};

/// Kernels and links first; the factor of the site is that of the runs as they are predicted with
/// them. InputError for anything wrong in a file, and for an output that is one of the inputs.
[[nodiscard]] FitAnswer fit_profile(const FitRequest& request, const ShippedData& data);

}  // namespace plansearch
