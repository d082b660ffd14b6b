// SPDX-License-Identifier: Apache-2.0
// The messages that bring a tensor from one layout to another, for very many pairs of layouts on
// one mesh. Pairs that differ in the names of their factors alone take one path, which is looked
// for once; paths that differ in the names of alike factors alone are one route, which costs the
// same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "communication/derive/tensor_layouts.hpp"
#include "communication/redistribution/redistribution.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/device_mesh.hpp"
#include "plansearch/fixed_vector.hpp"

namespace plansearch {

/// One value per factor of a tensor group.
template <typename T>
using ByFactor = std::array<T, kMostFactors>;

/// By factor, the first one of its run of neighbours that are alike.
struct AlikeFactors {
  ByFactor<std::uint8_t> first{0, 1, 2, 3, 4, 5, 6, 7};  ///< none is like another
};

/// Two neighbours are alike where messages cost the same over any group that holds one of them and
/// over the same group with the other in its place, and no role holds one of them alone.
[[nodiscard]] AlikeFactors alike_factors(const Cluster& cluster, const DeviceMesh& mesh);

/// Whether tensor groups lie so on both meshes that messages over the axes that cut the tensors of one
/// replica cost the same.
[[nodiscard]] bool lie_alike(const Cluster& cluster, const DeviceMesh& one,
                             const DeviceMesh& other);

/// Messages that differ in their factors alone.
struct RouteMessage {
  CommunicationKind kind = CommunicationKind::Slice;
  AxisSet axes;        ///< other than factors
  double share = 0.0;  ///< of the tensor of one replica
  bool operator==(const RouteMessage&) const = default;
};

/// A message over factors, one bit each.
struct RouteStep {
  std::uint32_t factors = 0;
  std::uint32_t message = 0;  ///< by number
  bool operator==(const RouteStep&) const = default;
};

/// Numbers by keys of bytes; 0 of a key that is new.
using NumbersByKey = std::unordered_map<std::string, std::uint32_t>;

/// Known layouts of meshes that lie alike and the paths between them, for all blocks, micro-batches,
/// numbers of replicas and policies of parameters: replicas cut a tensor outermost, wherever it is,
/// and no path goes between them. Shared by threads; a path does not depend on who asks
/// for it first. A route says what its messages cost, by number; 0 is the one without messages.
class KnownRoutes {
 public:
  struct Route {
    std::vector<RouteStep> steps{};    ///< of alike factors the first ones
    double length = 0.0;               ///< length_of, in shares of the tensor of one replica
    std::size_t again = 0;             ///< first step that readers repeat always,
    std::size_t again_in_context = 0;  ///< and those of other context ranks
    bool operator==(const Route&) const = default;
  };

  /// `other` shares what was found of all layouts of few units, on whatever mesh.
  explicit KnownRoutes(const DeviceMesh& mesh, const AlikeFactors& alike = {},
                       const KnownRoutes* other = nullptr);
  KnownRoutes(const KnownRoutes&) = delete;
  KnownRoutes& operator=(const KnownRoutes&) = delete;

  /// Holds off other threads; asked for around everything below.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  /// The same layout with its number, which it shares with those of other numbers of replicas.
  [[nodiscard]] NumberedLayout numbered(Layout layout);
  /// Both layouts have numbers from here; `extents` of the tensor. `rates`: those of every caller,
  /// none where not every sequence of steps is tried.
  [[nodiscard]] std::uint32_t route(const std::vector<double>& extents, const NumberedLayout& from,
                                    const NumberedLayout& to, const StepRates* rates);
  [[nodiscard]] std::size_t count() const { return routes_.size(); }
  [[nodiscard]] const Route& operator[](std::uint32_t number) const { return *routes_[number]; }
  [[nodiscard]] const RouteMessage& message(std::uint32_t number) const {
    return messages_[number];
  }
  /// Paths of the same mesh, found by others too.
  [[nodiscard]] const RedistributionScratchPtr& scratch() const { return scratch_; }

 private:
  /// A digit of layouts: all that it is but for the names of its factors, as a number, and these.
  struct Digit {
    std::uint16_t shape = 0;
    FixedVector<std::uint8_t, kMostTerms> factors;
    std::uint32_t held = 0;  ///< the factors, one bit each
  };
  struct Known {
    FixedVector<FixedVector<std::uint16_t, kMaxDigits>, kMaxTensorRank> dims;  ///< digits by number
    std::uint32_t parts = 0;    ///< factors, one bit each
    std::uint32_t factors = 0;  ///< of cuts
    std::uint16_t frame = 0;    ///< other parts and flat cuts; 0: none
    bool plain = true;
    int slices = 1;
  };
  /// Factors in the order that two layouts name them in.
  struct Names {
    ByFactor<std::uint8_t> of_factor{};  ///< from 1
    FixedVector<std::uint8_t, kMostFactors> factors;
    std::uint8_t operator()(std::uint8_t factor) {
      if (of_factor[factor] == 0) {
        factors.push_back(factor);
        of_factor[factor] = static_cast<std::uint8_t>(factors.size());
      }
      return of_factor[factor];
    }
  };
  /// A message of a path, over factors by name, one bit each.
  struct PathMessage {
    CommunicationKind kind = CommunicationKind::Slice;
    AxisSet axes;  ///< other than factors
    std::uint32_t names = 0;
    double tiles = 0.0;  ///< elements, as multiples of what one device starts with
  };
  struct KnownPath {
    double length = 0.0;      ///< in such tiles
    std::uint32_t first = 0;  ///< of `steps_`
    std::uint32_t last = 0;
    std::uint32_t again = 0;
    std::uint32_t again_in_context = 0;
  };
  /// Routes by layouts, from 1; in pages, as few of all pairs are ever asked for.
  static constexpr std::size_t kPage = 64;
  using Page = std::array<std::uint32_t, kPage>;
  using Pages = std::vector<std::unique_ptr<Page>>;

  [[nodiscard]] std::uint32_t& pair(std::uint32_t from, std::uint32_t to);
  [[nodiscard]] std::uint16_t digit_number(const SliceDigit& digit);
  [[nodiscard]] Known describe(const Layout& layout);
  /// Writes what a path depends on into `key_`, but for rates.
  void put_difference(const Known& from, const Known& to, Names& names);
  void put_rest(const Known& layout, const Known& other, Names& names);
  [[nodiscard]] std::uint32_t find_route(const std::vector<double>& extents,
                                         const NumberedLayout& from, const NumberedLayout& to,
                                         const StepRates* rates);
  void add_path(const TensorMove& move, Names& names);
  [[nodiscard]] Route named_route(const KnownPath& path, const Names& names, int slices);
  [[nodiscard]] std::uint32_t number_of(Route route);

  std::mutex mutex_;
  DeviceMesh mesh_;
  AlikeFactors alike_;
  LayoutNumbers layouts_;
  NumbersByKey shapes_;  ///< of digits
  NumbersByKey digit_numbers_;
  NumbersByKey frames_;
  std::vector<Digit> digits_{1};  ///< by number
  std::vector<Known> known_{1};   ///< by number of the layout
  std::string key_;
  NumbersByKey path_numbers_;  ///< from 1
  std::vector<KnownPath> paths_;
  std::vector<PathMessage> steps_;
  NumbersByKey named_;  ///< routes from 1, by paths, runs of alike factors and sizes of tiles
  std::vector<RouteMessage> messages_;
  std::vector<Pages> pairs_;  ///< by layout
  struct RouteHash {
    [[nodiscard]] std::size_t operator()(const Route& route) const;
  };
  std::unordered_map<Route, std::uint32_t, RouteHash> route_numbers_;
  std::vector<const Route*> routes_;
  RedistributionScratchPtr scratch_;
  std::vector<RedistributionStep> found_;
  Path path_;
};

}  // namespace plansearch
