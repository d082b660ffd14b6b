// SPDX-License-Identifier: Apache-2.0
// The parts of a hardware profile and their readers. Private to io.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "io/document/document.hpp"
#include "io/document/name_resolver.hpp"
#include "io/document/raw_value.hpp"
#include "plansearch/cluster.hpp"

namespace plansearch::io {

/// Fields that were read from one scope of a file, to be matched with its `provenance:` list.
class FieldLog {
 public:
  void given(const std::string& field) { given_.insert(field); }
  /// Provenance of every given field as the scope's `provenance:` says (fields it does not
  /// mention are assumed); fields of `inherited` that were not given keep theirs.
  [[nodiscard]] ProvenanceMap provenance(const Node& scope, const ProvenanceMap& inherited) const;

 private:
  std::set<std::string> given_;
};

/// One default: applies to tiers of this kind (or any) with at least this bandwidth.
struct TierRule {
  std::optional<TierKind> kind;
  Bandwidth min_bandwidth;
  std::string curve;
};
/// One default: accelerators with at least this 16-bit peak take these kernels.
struct KernelRule {
  FlopRate min_peak;
  std::string like;
};

/// hardware_profiles/defaults.yaml: what holds where a profile says nothing.
struct Defaults {
  double collective_multiprocessors = 0.0;  ///< that messages of a collective keep busy
  ActivityPairs path_share;
  double reduction_efficiency = 1.0;
  double optimizer_efficiency = 1.0;
  double host_optimizer_efficiency = 1.0;
  Seconds split_pass;
  Seconds burst_warm_up;
  double unaligned_rows = 1.0;
  double unmeasured_sigma = 0.0;
  double foreign_sigma = 0.0;
  Bytes l2_cache;
  std::vector<KernelRule> kernels;
  std::vector<TierRule> links;
  std::vector<TierRule> fabrics;
  Bandwidth device_bandwidth;  ///< between an accelerator that is alone in its node and its NICs
  std::string device_curve;
  std::map<DataType, std::vector<DataType>> matmul_fallback;
};

/// Finds and reads the files one profile refers to.
class ProfileLibrary {
 public:
  explicit ProfileLibrary(std::vector<std::filesystem::path> directories);

  [[nodiscard]] Document open(const std::filesystem::path& path);
  [[nodiscard]] const Defaults& defaults();
  [[nodiscard]] NamedFiles files(const std::string& what, const std::string& folder,
                                 const std::filesystem::path& beside = {}) const;
  /// Formats without a matmul curve of their own, and the format whose curve they share, of an
  /// accelerator that was read before.
  [[nodiscard]] std::map<DataType, DataType>& shared_curves(const std::string& accelerator) {
    return shared_curves_[accelerator];
  }
  /// Hash of all files opened so far, in order.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

 private:
  std::vector<std::filesystem::path> directories_;
  std::optional<Defaults> defaults_;
  std::map<std::string, std::map<DataType, DataType>> shared_curves_;
  std::uint64_t hash_ = 0;
};

/// How deep `like:` chains may go.
inline constexpr int kMaxLikeDepth = 8;

[[nodiscard]] Defaults read_defaults(const Node& root);
[[nodiscard]] TierKind read_tier_kind(const Node& node);

[[nodiscard]] Accelerator read_accelerator(const Node& node, ProfileLibrary& library, int depth);
[[nodiscard]] Accelerator find_accelerator(std::string_view name, ProfileLibrary& library,
                                           const SourceLocation& where, int depth);
/// The accelerator whose kernel curves hold: the one that `kernels.like` names, else the nearest by
/// peak.
[[nodiscard]] Accelerator kernel_donor(const Node& accelerator, const Accelerator& so_far,
                                       ProfileLibrary& library, int depth);
/// Kernel curves of an accelerator whose datasheet values are already read.
[[nodiscard]] KernelCurves read_kernels(const Node& accelerator_node, const Accelerator& so_far,
                                        const Accelerator* base, ProfileLibrary& library,
                                        FieldLog& log, ProvenanceMap& inherited, int depth);

/// Coefficients of concurrent streams, from `concurrency:` of the accelerator, else its base, else
/// the defaults; `so_far` has its datasheet values.
[[nodiscard]] ConcurrencyCoefficients read_concurrency(const Node& accelerator_node,
                                                       const Accelerator& so_far,
                                                       const Accelerator* base,
                                                       ProfileLibrary& library, FieldLog& log,
                                                       ProvenanceMap& inherited, int depth);
/// A `paths:` map; calls `given` with the field of every pair.
void read_paths(const Node& node, ActivityPairs& paths,
                const std::function<void(const std::string&)>& given);

/// A curve and what to say of its origin.
template <typename Curve>
struct CurveAndSource {
  Curve curve;
  Provenance from;
};
/// Curve of a link tier: as named, described inline, or by default rule.
[[nodiscard]] CurveAndSource<LocalLinkCurve> read_link_curve(const Node& tier_node,
                                                             const LinkTier& tier,
                                                             ProfileLibrary& library);
[[nodiscard]] CurveAndSource<FabricCurve> read_fabric_curve(const Node& tier_node,
                                                            const LinkTier& tier,
                                                            ProfileLibrary& library);
/// The tier of one accelerator, for machines whose innermost tier is already a network.
[[nodiscard]] LinkTier device_tier(ProfileLibrary& library, const SourceLocation& where);
[[nodiscard]] std::optional<Residual> read_residual(const Node& node, std::optional<Residual> base);

/// Values with an optional fall-back: the key's value, else the base's, else "key is missing".
[[nodiscard]] Seconds time_or(const Node& node, std::string_view key, const Seconds* base);
[[nodiscard]] Bandwidth bandwidth_or(const Node& node, std::string_view key, const Bandwidth* base);
/// A number in [low, high].
[[nodiscard]] double number_or(const Node& node, std::string_view key, const double* base,
                               double low, double high);

/// The profile `own` says, and where it says nothing what `base` does, except its name, aliases and
/// description. Tiers go by name: keys of a tier of the same name replace those of the base, other
/// tiers are added behind it. The provenance of both is kept, that of `own` first; every statement
/// is about values of its own file (FieldLog).
[[nodiscard]] RawValue profile_like(const RawValue& base, RawValue own);

}  // namespace plansearch::io
