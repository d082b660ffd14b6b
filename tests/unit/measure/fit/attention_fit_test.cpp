// SPDX-License-Identifier: Apache-2.0
#include "measure/fit/kernel_fit.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>

#include "cost/kernels/compute_cost.hpp"
#include "io/hardware/profile_reader.hpp"
#include "measure/fit/fit_profile.hpp"
#include "unit/evidence/run_tables.hpp"

namespace plansearch::attention_fit_test {
namespace {

constexpr SitePopulation kPopulation{
    .sites = 9, .mean = 0.07, .mean_error = 0.03, .between = 0.11, .within = 0.07};

Cluster machine() {
  return io::load_cluster("dgx-h100", std::vector{test::shipped("hardware_profiles")});
}

/// What a curve would take, written as a table of a kernel.
KernelTable times_of(const AttentionCurve& curve, const std::string& kernel, Pass pass,
                     std::string_view mask = "causal") {
  const Accelerator chip = machine().accelerator;
  std::string text = "gpu,kernel,direction,mask,batch,seq_len,heads,kv_heads,head_dim,time_us\n";
  for (const double length : {256.0, 1024.0, 4096.0, 16384.0}) {
    for (const double size : {64.0, 128.0}) {
      for (const double heads : {2.0, 16.0, 64.0}) {
        const AttentionShape shape{1.0,    heads, heads, length,
                                   length, size,  size,  mask == "causal" ? 0.5 : 1.0};
        const double time = attention_time(chip, curve, DataType::Bf16, shape, pass).value();
        text += fmt::format("h100,{},{},{},1,{},{},{},{},{:.9g}\n", kernel,
                            pass == Pass::Forward ? "forward" : "backward", mask, length, heads,
                            heads, size, 1e6 * time);
      }
    }
  }
  KernelTable table{"mine.csv", TableKind::Attention, io::CsvTable::parse(text, "mine.csv"), {}};
  for (const io::CsvRow& row : table.table.rows()) table.lines.push_back(row.line);
  return table;
}

AttentionCurve changed(AttentionCurve curve) {
  curve.flop_efficiency *= 0.8;
  curve.exponentials_per_us *= 1.2;
  curve.block = curve.block * 1.5;
  curve.launch = curve.launch * 0.7;
  curve.longest = 0.6;
  return curve;
}

KernelFit fitted(const std::vector<KernelTable>& tables, Carried carried) {
  KernelFit fit;
  fit.cluster = machine();
  fit_attention(tables, kPopulation, carried, fit);
  return fit;
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("the curve of a kernel of its own is found, in both directions and for both masks") {
    const AttentionKernel base = *machine().accelerator.kernels.find_attention("flash3");
    const AttentionCurve forward = changed(base.forward);
    const AttentionCurve backward = changed(*base.backward);
    const KernelFit fit = fitted(
        {times_of(forward, "mine", Pass::Forward), times_of(forward, "mine", Pass::Forward, "full"),
         times_of(backward, "mine", Pass::Backward)},
        Carried::WholeCurve);
    REQUIRE(fit.groups.size() == 2);
    CHECK(fit.groups[0].part == "attention mine forward");
    CHECK(fit.groups[0].rows == 48);
    const AttentionKernel* own = fit.cluster.accelerator.kernels.find_attention("mine");
    REQUIRE(own != nullptr);
    for (const auto& [found, right] :
         {std::pair{own->forward, forward}, std::pair{own->backward.value(), backward}}) {
      CHECK(found.flop_efficiency == doctest::Approx(right.flop_efficiency).epsilon(0.01));
      // Products and exponentials follow one another: only their sum is sure.
      CHECK(found.exponentials_per_us == doctest::Approx(right.exponentials_per_us).epsilon(0.03));
      CHECK(found.block.value() == doctest::Approx(right.block.value()).epsilon(0.02));
      CHECK(found.launch.value() == doctest::Approx(right.launch.value()).epsilon(0.01));
      CHECK(found.longest == doctest::Approx(right.longest).epsilon(0.01));
    }
    CHECK(fit.attentions == std::vector<std::string>{"mine"});
    CHECK(software_section(fit) == "software: {attention_kernel: mine}\n");
    CHECK(kernels_section(fit, WrittenKeys::All).find("      mine:\n        forward: {launch: ") !=
          std::string::npos);
  }

  TEST_CASE("a base keeps the start of its calls; forward alone cannot train") {
    const AttentionKernel base = *machine().accelerator.kernels.find_attention("flash3");
    const KernelFit fit =
        fitted({times_of(changed(base.forward), "flash3", Pass::Forward)}, Carried::Rates);
    const AttentionKernel& own = *fit.cluster.accelerator.kernels.find_attention("flash3");
    CHECK(own.forward.launch == base.forward.launch);
    CHECK(own.forward.flop_efficiency < base.forward.flop_efficiency);
    CHECK(own.backward == base.backward);
    const KernelFit serving =
        fitted({times_of(changed(base.forward), "", Pass::Forward)}, Carried::WholeCurve);
    CHECK(serving.attentions == std::vector<std::string>{"serving"});
    CHECK(software_section(serving).empty());
  }

  TEST_CASE("other directions than those of the kernel are rows that are not used") {
    const KernelProfiles only{[](std::string_view) { return machine().accelerator; },
                              [](std::string_view) { return machine(); },
                              [] { return std::vector<Cluster>{machine()}; }};
    std::string text = "gpu,kernel,direction,batch,seq_len,heads,kv_heads,head_dim,time_us\n";
    text += "h100,serving,backward,1,512,8,8,128,9\nh100,other,forward,1,512,8,8,128,9\n";
    const auto rows =
        predict_kernels(io::CsvTable::parse(text, "t.csv"), TableKind::Attention, only);
    CHECK(rows[0].reason.find("has no backward of attention kernel \"serving\"") !=
          std::string::npos);
    CHECK(rows[1].reason.find("has no forward of attention kernel \"other\"") != std::string::npos);
  }
}

}  // namespace plansearch::attention_fit_test
