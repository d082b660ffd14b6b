// SPDX-License-Identifier: Apache-2.0
// What a bound takes for granted of messages, on every machine that is shipped.
#include <doctest/doctest.h>

#include <filesystem>
#include <random>

#include "cost/collective/collective_cost.hpp"
#include "io/profile_reader.hpp"
#include "support/source_directory.hpp"

namespace plansearch {
namespace {

std::vector<Cluster> shipped_clusters() {
  const std::filesystem::path folder =
      std::filesystem::path(PLANSEARCH_SOURCE_DIR) / "hardware_profiles";
  std::vector<Cluster> clusters;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (!entry.is_regular_file() || name == "defaults") continue;
    clusters.push_back(io::load_cluster(name, std::vector{folder}));
  }
  return clusters;
}

TEST_SUITE("property") {
  TEST_CASE("the time of a message is concave in its bytes") {
    // Between two sizes a call takes no less than the chord says: bounds draw it.
    std::mt19937 engine(29);
    const auto power = [&](unsigned most) { return 1 << engine() % (most + 1); };
    int calls = 0;
    for (const Cluster& cluster : shipped_clusters()) {
      INFO(cluster.name);
      for (int i = 0; i < 300; ++i) {
        const AxisExtent group{2 * power(6), power(6)};
        const auto kind = static_cast<CommunicationKind>(engine() % 6);
        const double small = 64.0 * power(20);
        const double large = small * (2 << engine() % 6);
        const double share = static_cast<double>(engine() % 100) / 100.0;
        const auto time = [&](double bytes) {
          return collective_cost(cluster, kind, Bytes(bytes), group, Contention::TrainingStep).time;
        };
        const Seconds chord = time(small) * (1.0 - share) + time(large) * share;
        CAPTURE(group.size);
        CAPTURE(group.stride);
        CAPTURE(small);
        CAPTURE(share);
        CHECK(time(small + (large - small) * share) >= chord * (1.0 - 1e-9));
        ++calls;
      }
    }
    CHECK(calls > 10'000);
  }
}

}  // namespace
}  // namespace plansearch
