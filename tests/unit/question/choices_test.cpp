// SPDX-License-Identifier: Apache-2.0
// Sizes, formats and sites that a question may ask for. Machines are small copies of shipped ones.
#include <doctest/doctest.h>

#include <memory>
#include <optional>
#include <string>

#include "plansearch/error.hpp"
#include "plansearch/load_problem.hpp"
#include "question/chosen.hpp"
#include "question/gpu_count.hpp"

namespace plansearch::choices_test {
namespace {

ResolvedQuestion loaded(const std::string& hardware) {
  ProblemRequest request;
  request.hardware = hardware;
  request.model = "gpt2-xl";
  return load_problem(request);
}

}  // namespace

TEST_SUITE("problem") {
  TEST_CASE("sizes: part of a node, or whole nodes") {
    const ResolvedQuestion asked = loaded("perlmutter");  // nodes of 4
    const Cluster& cluster = *asked.problem.cluster;
    for (const int gpus : {1, 2, 3, 4, 8, 12, 6144, 8000}) {
      CAPTURE(gpus);
      CHECK_FALSE(bad_gpu_count(cluster, gpus).has_value());
    }
    for (const int gpus : {-4, 0, 5, 6, 4098}) {
      CAPTURE(gpus);
      CHECK(bad_gpu_count(cluster, gpus).has_value());
    }
    CHECK_FALSE(bad_gpu_count(cluster, 1 << 22).has_value());
    CHECK(bad_gpu_count(cluster, (1 << 22) + 4).has_value());
    ProblemRequest nodes;
    nodes.nodes = 3;
    CHECK(asked_gpus(nodes, cluster) == 12);
    nodes.nodes = 2'000'000'000;
    CHECK_THROWS_AS(static_cast<void>(asked_gpus(nodes, cluster)), InputError);
  }

  TEST_CASE("formats: a model's own where the accelerator has it, else the best that it has") {
    const Framework framework = *loaded("perlmutter").problem.framework;
    const Accelerator a100 = loaded("perlmutter").problem.cluster->accelerator;
    const Accelerator v100 = loaded("aws-p3").problem.cluster->accelerator;
    const auto chosen = [&](const Accelerator& accelerator, std::optional<DataType> of_model) {
      const auto format = choose_precision({}, of_model, accelerator, framework);
      return std::string(to_text(format.value())) + " (" + format.origin() + ")";
    };
    CHECK(chosen(a100, {}) == "bf16 (default)");
    CHECK(chosen(a100, DataType::Fp16) == "fp16 (model)");
    CHECK(chosen(a100, DataType::Fp8) == "bf16 (default)");  // no fp8 on an A100
    CHECK(chosen(v100, DataType::Bf16) == "fp16 (profile)");
    ProblemRequest asked;
    asked.precision = "fp8";
    CHECK_THROWS_AS(static_cast<void>(choose_precision(asked, {}, a100, framework)), InputError);
  }

  TEST_CASE("sites: flag, then the profile's own under its framework, then the typical one") {
    const ResolvedQuestion asked = loaded("perlmutter");
    const SiteTable& sites = *asked.files.sites;
    Cluster fitted = *asked.problem.cluster;
    fitted.site = FittedSite{{.name = "mine", .factor = 1.25}, "megatron"};
    const auto chosen = [&](const ProblemRequest& request, const char* framework) {
      const auto site = choose_site(request, sites, fitted, framework);
      return site.value().name + " (" + site.origin() + ")";
    };
    CHECK(chosen({}, "megatron") == "mine (profile)");
    CHECK(chosen({}, "torchtitan") == "typical (default)");
    ProblemRequest tuned;
    tuned.site = "tuned x1";  // as answers write it
    CHECK(chosen(tuned, "megatron") == "tuned (flag)");
    ProblemRequest unknown;
    unknown.site = "nowhere";
    CHECK_THROWS_AS(static_cast<void>(choose_site(unknown, sites, fitted, "megatron")), InputError);
  }
}

}  // namespace plansearch::choices_test
