// SPDX-License-Identifier: Apache-2.0
// A profile of a machine of which only samples are known.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "io/sample_file.hpp"
#include "plansearch/shipped_data.hpp"
#include "studies/fit/kernel_fit.hpp"

namespace plansearch {

/// What the samples say before any fit.
struct NewMachine {
  std::string name;  ///< of the profile
  io::SampledMachine sampled;
  std::string shipped;  ///< the accelerator of that name; empty: none
  std::string donor{};  ///< an accelerator whose fractions hold where nothing was measured
  std::string link{};   ///< a shipped link that messages follow, before its constants are fitted
  std::map<std::string, double> peaks;  ///< FLOP/s by format, just above the fastest product
  double memory_rate = 0.0;             ///< B/s, just above the fastest pass
  double link_rate = 0.0;  ///< B/s of a rank, just above the fastest message; 0: no message
  std::map<std::string, double> host_rates;  ///< B/s by direction
};

/// Throws FitRefusal for samples of several machines, and without products or passes over memory.
[[nodiscard]] NewMachine new_machine(const std::string& name,
                                     const std::vector<io::SampleFile>& files,
                                     const ShippedData& data);

/// Whether samples are of messages within a node.
[[nodiscard]] bool has_link(const NewMachine& machine);

/// As it is before the fit; every constant that products, passes and messages move is there.
[[nodiscard]] Cluster starting_cluster(const NewMachine& machine, const ShippedData& data);

/// The whole profile with the constants of the fit, each with its evidence.
[[nodiscard]] std::string new_profile_text(const NewMachine& machine, const KernelFit& fit);

}  // namespace plansearch
