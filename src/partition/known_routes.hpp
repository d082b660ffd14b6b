// SPDX-License-Identifier: Apache-2.0
// The messages that bring a tensor from one layout to another, for very many pairs of layouts on
// one mesh. Pairs that differ in the names of their factors alone take one path, which is looked
// for once; paths that differ in the names of alike factors alone are one route, which costs the
// same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "communication/derive/tensor_layouts.hpp"
#include "communication/redistribution/redistribution.hpp"
#include "plansearch/cluster.hpp"
#include "plansearch/device_mesh.hpp"

namespace plansearch {

/// One value per factor of a tensor group.
template <typename T>
using ByFactor = std::array<T, kMostFactors>;

/// Factors in some order.
using FactorOrder = ByFactor<std::uint8_t>;

/// By factor, the first one of its run of neighbours that are alike.
struct AlikeFactors {
  ByFactor<std::uint8_t> first{0, 1, 2, 3, 4, 5, 6, 7};  ///< none is like another
};

/// Two neighbours are alike where messages cost the same over any group that holds one of them and
/// over the same group with the other in its place, and no role holds one of them alone.
[[nodiscard]] AlikeFactors alike_factors(const Cluster& cluster, const DeviceMesh& mesh);

/// Messages that differ in their factors alone.
struct RouteMessage {
  CommunicationKind kind = CommunicationKind::Slice;
  AxisSet axes;        ///< other than factors
  double share = 0.0;  ///< of the tensor
  bool operator==(const RouteMessage&) const = default;
};

/// A message over factors, one bit each.
struct RouteStep {
  std::uint32_t factors = 0;
  std::uint32_t message = 0;  ///< by number
  bool operator==(const RouteStep&) const = default;
};

/// Known layouts of one mesh and the paths between them, for all blocks,
/// micro-batches and policies of parameters. Shared by threads; a path does not depend on who asks
/// for it first. A route says what its messages cost, by number; 0 is the one without messages.
class KnownRoutes {
 public:
  struct Route {
    std::vector<RouteStep> steps{};    ///< of alike factors the first ones
    double length = 0.0;               ///< length_of, in shares of the tensor
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
  /// The same layout with its number.
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
  /// Role of one factor in a layout: the places at which it stands, as a number; 0: none.
  using Roles = ByFactor<std::uint16_t>;
  struct Known {
    Roles roles{};
    FactorOrder order{};      ///< factors by their roles
    std::uint16_t frame = 0;  ///< roles of other axes
  };
  /// Roles of the factors at both ends, sorted; where paths go by rates, by runs of alike factors
  /// first. The order of parts counts: paths of equal length differ by it.
  struct Key {
    ByFactor<std::uint32_t> roles{};
    std::uint32_t frames = 0;
    bool operator==(const Key&) const = default;
    [[nodiscard]] std::size_t hash() const;
  };
  /// Paths by hash of their key.
  struct Place {
    std::size_t hash = 0;
    std::uint32_t path = 0;  ///< from 1; 0: none
  };
  /// Factors are places in the key.
  struct KnownPath {
    Key key;
    double length = 0.0;
    std::uint32_t first = 0;  ///< of `steps_`
    std::uint32_t last = 0;
    std::uint32_t again = 0;
    std::uint32_t again_in_context = 0;
    std::uint32_t named = 0;  ///< the first of `named_`, from 1
  };
  /// The route of a path where the places of its key are factors of these runs.
  struct NamedPath {
    std::uint32_t runs = 0;
    std::uint32_t route = 0;
    std::uint32_t next = 0;  ///< of `named_`, from 1
  };
  /// Routes by layouts, from 1; in pages, as few of all pairs are ever asked for.
  static constexpr std::size_t kPage = 64;
  using Page = std::array<std::uint32_t, kPage>;
  using Pages = std::vector<std::unique_ptr<Page>>;

  [[nodiscard]] std::uint32_t& pair(std::uint32_t from, std::uint32_t to);
  [[nodiscard]] std::uint16_t role(const std::string& places);
  [[nodiscard]] Known describe(const Layout& layout);
  [[nodiscard]] Place& find(const Key& key, std::size_t hash);
  void grow();
  [[nodiscard]] std::uint32_t find_route(const std::vector<double>& extents,
                                         const NumberedLayout& from, const NumberedLayout& to,
                                         const StepRates* rates);
  void add_path(const Key& key, const FactorOrder& order, const TensorMove& move);
  [[nodiscard]] std::uint32_t named_route(KnownPath& path, const FactorOrder& order);
  [[nodiscard]] std::uint32_t number_of(Route route);

  std::mutex mutex_;
  DeviceMesh mesh_;
  AlikeFactors alike_;
  std::size_t factors_ = 0;
  LayoutNumbers layouts_;
  std::map<std::string, std::uint16_t> numbers_;  ///< of roles and frames
  std::vector<Known> known_{1};                   ///< by number of the layout
  std::vector<Place> places_;
  std::vector<KnownPath> paths_;
  std::vector<RouteStep> steps_;
  std::vector<RouteMessage> messages_;
  std::vector<NamedPath> named_;
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
