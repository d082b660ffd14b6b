// SPDX-License-Identifier: Apache-2.0
// Samples of today against a profile: what of the machine has changed.
#pragma once

#include <string>
#include <vector>

#include "io/sample_file.hpp"
#include "plansearch/cluster.hpp"

namespace plansearch::calibrate {

struct Drift {
  std::string part;
  std::size_t points = 0;
  double ratio = 1.0;     ///< measured over predicted, median
  double expected = 1.0;  ///< the same when the profile was fitted
  double band = 0.0;      ///< of ln(ratio / expected), beyond which the part has drifted
  [[nodiscard]] bool drifted() const;
};

/// A rank that others wait for.
struct SlowRank {
  std::string part;  ///< "kernels": of its own; "messages": of its group
  std::size_t rank = 0;
  std::string where{};     ///< host and GPU, as the machine says
  double ratio = 1.0;      ///< its time over that of the middle rank, median
  std::size_t points = 0;  ///< in which it was the slowest
};

/// The process that was the slowest in most points of the samples, by more than a tenth.
[[nodiscard]] std::vector<SlowRank> slow_ranks(const io::SampledMachine& machine,
                                               const std::vector<io::Sample>& samples);

/// By format of products, by direction of attention, by passes over memory, by kind and group of
/// collectives. Samples that the profile cannot predict are left out.
[[nodiscard]] std::vector<Drift> drifts(const io::SampledMachine& machine,
                                        const std::vector<io::Sample>& samples,
                                        const Cluster& profile);

}  // namespace plansearch::calibrate
