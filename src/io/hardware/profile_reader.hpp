// SPDX-License-Identifier: Apache-2.0
// Hardware profiles (plansearch/profile/v1 and the files they refer to) into `Cluster`.
// The format is documented in docs/hardware_profiles.md.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/overrides.hpp"
#include "evaluate/answer/goodput.hpp"
#include "io/document/document.hpp"
#include "io/document/name_resolver.hpp"
#include "plansearch/chip_software.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/link_curves.hpp"
#include "plansearch/site.hpp"
#include "plansearch/switch_priors.hpp"

namespace plansearch::io {

/// Reads a cluster by path, name or alias. `directories` hold profiles, with the sub-directories
/// `accelerators`, `links` and `fabrics` and the file `defaults.yaml`. Names inside a profile are
/// looked up in the folder of that profile first. `overrides` replace its values. Throws InputError
/// for a fault in any of the files.
[[nodiscard]] Cluster load_cluster(std::string_view name_or_path,
                                   std::span<const std::filesystem::path> directories,
                                   std::span<const Override> overrides = {});

/// The file, what it is `like` included.
[[nodiscard]] Document open_cluster(std::string_view name_or_path,
                                    std::span<const std::filesystem::path> directories);

/// The same of a text, whose own places are those of `file_name`.
[[nodiscard]] Cluster parse_cluster(std::string_view text, const std::string& file_name,
                                    std::span<const std::filesystem::path> directories);

/// Reads one accelerator by path, name or alias.
[[nodiscard]] Accelerator load_accelerator(std::string_view name_or_path,
                                           std::span<const std::filesystem::path> directories);

/// Names, aliases and paths of all clusters in the directories.
[[nodiscard]] std::vector<NamedFile> list_clusters(
    std::span<const std::filesystem::path> directories);

/// InputError for anything wrong in the file, two sites of one name included.
[[nodiscard]] SiteTable read_sites(const std::filesystem::path& path);

/// InputError for unknown switches and values.
[[nodiscard]] SwitchPriors read_switch_priors(const std::filesystem::path& path);

/// The software of chips (plansearch/chips/v1, docs/frameworks.md). InputError for anything wrong.
[[nodiscard]] ChipSoftwareTable read_chip_software(const std::filesystem::path& path);

/// The key `site` of a hardware profile.
[[nodiscard]] FittedSite read_fitted_site(const Node& node);

/// The value of `link:` or `fabric:`, on one line.
[[nodiscard]] std::string curve_text(const LinkCurve& curve);

/// InputError for anything wrong, with its place.
[[nodiscard]] Reliability read_reliability(const std::filesystem::path& path);

}  // namespace plansearch::io
