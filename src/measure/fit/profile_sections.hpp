// SPDX-License-Identifier: Apache-2.0
// Text of the profiles that a fit writes: a changed one section by section, a new one whole.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "io/tables/sample_file.hpp"
#include "measure/fit/kernel_fit.hpp"
#include "plansearch/kernel_curves.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch {

/// A change of another profile says what it changes, a profile of its own all constants.
enum class WrittenKeys : std::uint8_t { Changed, All };

/// "{launch: 2 us, ...}".
[[nodiscard]] std::string matmul_keys(const MatmulCurve& curve);
[[nodiscard]] std::string attention_keys(const AttentionCurve& curve);
[[nodiscard]] std::string stream_keys(const StreamCurve& curve);

/// One entry of a list of evidence, with the end of its line.
[[nodiscard]] std::string evidence_entry(std::string_view fields, std::string_view evidence,
                                         std::string_view source);
/// "plansearch fit a.csv: ...; like B otherwise"; an empty base is none.
[[nodiscard]] std::string source_of(const KernelGroupFit& group, const std::string& base);

/// "  kernels: ..." of an accelerator; empty where the fit has none. `like` names the accelerator
/// whose fractions hold otherwise; empty: none.
[[nodiscard]] std::string kernels_section(const KernelFit& fit, WrittenKeys keys,
                                          const std::string& like = {});
/// "software: ..." that makes a fitted kernel of attention the machine's; empty where none can
/// train.
[[nodiscard]] std::string software_section(const KernelFit& fit);
/// The entries of its `provenance` list that belong to the section.
[[nodiscard]] std::string kernels_provenance(const KernelFit& fit, const std::string& base);
/// "    link: {...}" of a tier that the fit moved; empty for others.
[[nodiscard]] std::string link_lines(const KernelFit& fit, const std::string& tier,
                                     const std::string& base);

[[nodiscard]] std::vector<std::string> names_of(const std::vector<std::string>& paths);

/// A machine without a base, as its samples show it before any fit.
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

/// The cluster before the fit; every constant that products, passes and messages move is there.
[[nodiscard]] Cluster starting_cluster(const NewMachine& machine, const ShippedData& data);

/// The whole profile with the constants of the fit, each with its evidence.
[[nodiscard]] std::string new_profile_text(const NewMachine& machine, const KernelFit& fit);

}  // namespace plansearch
