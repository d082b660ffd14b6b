// SPDX-License-Identifier: Apache-2.0
// What a fit writes into a profile, section by section.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/kernel_curves.hpp"
#include "studies/fit/kernel_fit.hpp"

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

}  // namespace plansearch
