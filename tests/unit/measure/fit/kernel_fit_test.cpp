// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/kernel_fit.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stdexcept>

#include "io/hardware/profile_reader.hpp"
#include "io/tables/csv.hpp"
#include "unit/evidence/run_tables.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::kernel_fit_test {
namespace {

constexpr SitePopulation kPopulation{
    .sites = 9, .mean = 0.07, .mean_error = 0.03, .between = 0.11, .within = 0.07};

Cluster machine(const std::string& name = "dgx-h100") {
  return io::load_cluster(name, std::vector{test::shipped("hardware_profiles")});
}

KernelTable table(const std::string& text, TableKind kind) {
  KernelTable table{"mine.csv", kind, io::CsvTable::parse(text, "mine.csv"), {}};
  for (const io::CsvRow& row : table.table.rows()) table.lines.push_back(row.line);
  return table;
}

KernelProfiles profiles(const Cluster& cluster) {
  return {[&](std::string_view) { return cluster.accelerator; },
          [&](std::string_view) { return cluster; }, [&] { return std::vector<Cluster>{cluster}; }};
}

/// Rows without their last column, the time.
struct Asked {
  TableKind kind;
  std::string header;
  std::vector<std::string> rows;
};

/// Rows with times as `cluster` predicts them.
KernelTable timed(const Asked& asked, const Cluster& cluster, double factor = 1.0) {
  std::string text = asked.header + ",time_us\n";
  std::string any_time = text;
  for (const std::string& row : asked.rows) any_time += row + ",1\n";
  const auto found =
      predict_kernels(table(any_time, asked.kind).table, asked.kind, profiles(cluster));
  for (std::size_t i = 0; i < found.size(); ++i) {
    text += fmt::format("{},{:.9g}\n", asked.rows[i],
                        found[i].predicted.value().value() * 1e6 * factor);
  }
  return table(text, asked.kind);
}

Asked products() {
  Asked asked{TableKind::Matmul, "gpu,dtype,m,n,k", {}};
  for (const int m : {64, 512, 2048, 8192}) {
    for (const int n : {1024, 4096, 8192}) {
      asked.rows.push_back(fmt::format("h100,bf16,{},{},4096", m, n));
    }
  }
  return asked;
}

Asked messages(int gpus, int nodes) {
  Asked asked{TableKind::Collective, "hw,gpus,nodes,collective,bytes", {}};
  for (int power = 14; power <= 32; power += 2) {
    asked.rows.push_back(
        fmt::format("dgx-h100,{},{},all_gather,{}", gpus, nodes, std::int64_t{1} << power));
  }
  return asked;
}

const CurveChange& change(const KernelFit& fit, const std::string& part,
                          const std::string& quantity) {
  for (const KernelGroupFit& group : fit.groups) {
    for (const CurveChange& found : group.changes) {
      if (found.part == part && found.quantity == quantity) return found;
    }
  }
  throw std::runtime_error("no such change");
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("kernels of a chip that reaches less of its peak are found") {
    // The chip that was measured: 0.8 of the share of peak, memory as in the base.
    const Cluster base = machine();
    Cluster truth = base;
    auto& curve =
        truth.accelerator.kernels.matmul.at(static_cast<std::size_t>(DataType::Bf16)).value();
    curve.flop_efficiency *= 0.8;
    const auto fit = fit_kernels({timed(products(), truth)}, base, kPopulation);
    const CurveChange& flops = change(fit, "matmul bf16", "flop_efficiency");
    CHECK(flops.own / flops.base == doctest::Approx(0.8).epsilon(0.04));
    CHECK(flops.own / flops.base > 0.8);  // shrunk towards the base
    const CurveChange& bytes = change(fit, "matmul bf16", "byte_efficiency");
    CHECK(bytes.own / bytes.base == doctest::Approx(1.0).epsilon(0.03));
    CHECK(fit.cluster.accelerator.kernels.matmul.at(static_cast<std::size_t>(DataType::Fp8)) ==
          base.accelerator.kernels.matmul.at(static_cast<std::size_t>(DataType::Fp8)));
    CHECK(fit.cluster.tiers == base.tiers);
  }

  TEST_CASE("messages move the tier that they ran on") {
    const Cluster base = machine();
    Cluster truth = base;
    auto& link = std::get<LocalLinkCurve>(truth.tiers[0].curve);
    for (Bandwidth* rate : {&link.low_latency, &link.low_latency_128, &link.simple}) *rate *= 0.7;
    const auto fit = fit_kernels({timed(messages(8, 1), truth)}, base, kPopulation);
    const CurveChange& bandwidth = change(fit, "tier nvlink", "simple");
    CHECK(bandwidth.own / bandwidth.base == doctest::Approx(0.7).epsilon(0.05));
    CHECK(fit.tiers == std::vector<std::string>{"nvlink"});
    CHECK(fit.cluster.tiers[1] == base.tiers[1]);
    CHECK(fit.cluster.accelerator == base.accelerator);

    auto& fabric = std::get<FabricCurve>(truth.tiers[1].curve);
    fabric.nic_efficiency *= 0.3;  // at that of the base, links inside the node bind
    const auto both = fit_kernels({timed(messages(8, 1), truth), timed(messages(32, 4), truth)},
                                  base, kPopulation);
    const CurveChange& cards = change(both, "tier infiniband", "nic_efficiency");
    CHECK(cards.own / cards.base == doctest::Approx(0.3).epsilon(0.1));
    CHECK(change(both, "tier nvlink", "simple").own / bandwidth.base ==
          doctest::Approx(0.7).epsilon(0.05));
  }

  TEST_CASE("a link that is faster than its data sheet says stays so, and none becomes so") {
    Cluster base = machine();
    auto& link = std::get<LocalLinkCurve>(base.tiers[0].curve);
    link.simple = base.tiers[0].bandwidth * 1.2;
    const auto same = fit_kernels({timed(messages(8, 1), base)}, base, kPopulation);
    CHECK(change(same, "tier nvlink", "simple").own ==
          doctest::Approx(link.simple.value()).epsilon(0.01));
    base = machine();
    Cluster truth = base;
    std::get<LocalLinkCurve>(truth.tiers[0].curve).simple = base.tiers[0].bandwidth * 1.5;
    const auto faster = fit_kernels({timed(messages(8, 1), truth)}, base, kPopulation);
    CHECK(change(faster, "tier nvlink", "simple").own <= base.tiers[0].bandwidth.value());
  }

  TEST_CASE("messages of one rank a node are those of the fabric") {
    const Cluster base = machine();
    const auto fit = fit_kernels({timed(messages(4, 4), base)}, base, kPopulation);
    CHECK(fit.tiers == std::vector<std::string>{"infiniband"});
  }

  TEST_CASE("times of another chip, or in other units, are refused") {
    const Cluster base = machine();
    const auto refusal = [&](const KernelTable& table) {
      try {
        static_cast<void>(fit_kernels({table}, base, kPopulation));
      } catch (const FitRefusal& refused) {
        return refused;
      }
      return FitRefusal{};
    };
    CHECK(refusal(timed(products(), base, 3.0)).reason ==
          "matmul bf16: the times are x3 of those of the base");
    CHECK(refusal(timed(messages(8, 1), base, 1e-6)).remedy.find("microseconds") !=
          std::string::npos);
  }

  TEST_CASE("curves are read as they are written") {
    const test::TemporaryDirectory directory;
    for (const char* name : {"dgx-h100", "perlmutter", "frontier", "aws-p5", "gb200-nvl72"}) {
      const Cluster base = machine(name);
      std::string text =
          fmt::format("schema: plansearch/profile/v1\nname: copy\nlike: {}\ntiers:\n", base.name);
      for (const LinkTier& tier : base.tiers) {
        text += fmt::format("  - name: {}\n    {}: {}\n", tier.name,
                            tier.is_fabric() ? "fabric" : "link", io::curve_text(tier.curve));
      }
      const auto path = directory.write("copy.yaml", text);
      const Cluster copy =
          io::load_cluster(path.string(), std::vector{test::shipped("hardware_profiles")});
      for (std::size_t tier = 0; tier < base.tiers.size(); ++tier) {
        CHECK(io::curve_text(copy.tiers[tier].curve) == io::curve_text(base.tiers[tier].curve));
        CHECK(copy.tiers[tier].bandwidth == base.tiers[tier].bandwidth);
      }
    }
  }
}

}  // namespace plansearch::kernel_fit_test
