// SPDX-License-Identifier: Apache-2.0
// Profiles of kernels: sums by term, what is exposed and idle, and what is refused.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "io/tables/kernel_profile/step_profile.hpp"
#include "plansearch/error.hpp"
#include "support/source_directory.hpp"

namespace plansearch::io::kernel_profile_test {
namespace {

double us(const StepProfile& profile, ProfileTerm term) {
  return profile.at(term).time.value() * 1e6;
}

std::string event(const std::string& category, const std::string& name, int stream, double start,
                  double time) {
  return R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name +
         R"(", "pid": 0, "tid": )" + std::to_string(stream) + R"(, "ts": )" +
         std::to_string(start) + R"(, "dur": )" + std::to_string(time) +
         R"(, "args": {"dur": 5, "External id": [1, 2]}})";
}

std::string trace(const std::string& events) {
  return R"({"schemaVersion": 1, "deviceProperties": [{"name": "H100"}], "traceEvents": [)" +
         events + R"(], "traceName": "t"})";
}

template <typename Read>
std::string refusal(Read read) {
  try {
    static_cast<void>(read());
  } catch (const InputError& error) {
    return error.formatted();
  }
  return "accepted";
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("kernels by their names, as NCCL, CUTLASS, FlashAttention and PyTorch call them") {
    CHECK(term_of("nvjet_hsh_128x256_64x4_2x1_v_bz_coopB_TNT") == ProfileTerm::Product);
    CHECK(term_of("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n") == ProfileTerm::Product);
    CHECK(term_of("void cutlass::device_kernel<flash::FlashAttnFwdSm90<...>>") ==
          ProfileTerm::Attention);
    CHECK(term_of("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)") ==
          ProfileTerm::AllReduce);
    CHECK(term_of("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)") ==
          ProfileTerm::Exchange);
    CHECK(term_of("void deep_ep::internode::combine<1, __nv_bfloat16>") == ProfileTerm::Exchange);
    CHECK(term_of("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<...>") ==
          ProfileTerm::Optimizer);
    CHECK(term_of("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3") ==
          ProfileTerm::MemoryBound);
  }

  TEST_CASE("a timeline: sums, exposed messages and idle time") {
    // Stream 7 computes 0-100 and 120-150; stream 9 sends 80-115: 15 exposed, 5 idle of 150.
    const StepProfile profile =
        read_chrome_trace(trace(event("kernel", "gemm", 7, 0, 60) + "," +
                                event("kernel", "flash_fwd_kernel", 7, 60, 40) + "," +
                                event("kernel", "ncclDevKernel_AllGather_RING_LL", 9, 80, 35) +
                                "," + event("kernel", "elementwise", 7, 120, 30) + "," +
                                event("cpu_op", "aten::mm", 1, 0, 900) + "," +
                                event("user_annotation", "ProfilerStep#4", 1, 0, 70) + "," +
                                event("user_annotation", "ProfilerStep#5", 1, 70, 70)),
                          "trace.json");
    CHECK(us(profile, ProfileTerm::Product) == doctest::Approx(60.0));
    CHECK(us(profile, ProfileTerm::Attention) == doctest::Approx(40.0));
    CHECK(us(profile, ProfileTerm::AllGather) == doctest::Approx(35.0));
    CHECK(us(profile, ProfileTerm::MemoryBound) == doctest::Approx(30.0));
    CHECK(profile.span->value() * 1e6 == doctest::Approx(150.0));
    CHECK(profile.exposed->value() * 1e6 == doctest::Approx(15.0));
    CHECK(profile.idle->value() * 1e6 == doctest::Approx(5.0));
    CHECK(profile.steps == 2.0);
  }

  TEST_CASE("kernels of the optimizer's time are its own, messages are not") {
    const StepProfile profile = read_chrome_trace(
        trace(event("gpu_user_annotation", "Optimizer.step#AdamW.step", 7, 100, 50) + "," +
              event("kernel", "elementwise", 7, 0, 10) + "," +
              event("kernel", "elementwise", 7, 110, 20) + "," +
              event("kernel", "ncclDevKernel_AllGather_RING_LL", 9, 105, 40)),
        "trace.json");
    CHECK(us(profile, ProfileTerm::Optimizer) == doctest::Approx(20.0));
    CHECK(us(profile, ProfileTerm::MemoryBound) == doctest::Approx(10.0));
    CHECK(us(profile, ProfileTerm::AllGather) == doctest::Approx(40.0));
  }

  TEST_CASE("operators of a processor count by what those inside them leave") {
    // linear 0-100 holds addmm 10-90; 100 us in all.
    const StepProfile profile =
        read_chrome_trace(trace(event("cpu_op", "AddmmBackward0", 1, 0, 100) + "," +
                                event("cpu_op", "aten::addmm", 1, 10, 80) + "," +
                                event("cpu_op", "c10d::allreduce_", 1, 100, 50) + "," +
                                event("user_annotation", "gloo:all_reduce", 2, 60, 60)),
                          "trace.json");
    CHECK(us(profile, ProfileTerm::Product) == doctest::Approx(80.0));
    CHECK(us(profile, ProfileTerm::MemoryBound) == doctest::Approx(20.0));
    CHECK(us(profile, ProfileTerm::AllReduce) == doctest::Approx(60.0));
    CHECK(profile.exposed->value() * 1e6 == doctest::Approx(20.0));
  }

  TEST_CASE("two steps of PyTorch on a processor add up to the time they took") {
    const StepProfile profile = read_profile(std::filesystem::path(PLANSEARCH_SOURCE_DIR) /
                                             "tests/data" / "profiles" / "cpu_step.json");
    CHECK(profile.steps == 2.0);
    CHECK(profile.at(ProfileTerm::Product).time > 0.5 * *profile.span);
    CHECK(profile.at(ProfileTerm::Attention).time > Seconds(0));
    CHECK(profile.at(ProfileTerm::AllReduce).time > Seconds(0));
    CHECK(profile.at(ProfileTerm::Optimizer).time > Seconds(0));
    CHECK(*profile.idle < 0.2 * *profile.span);
  }

  TEST_CASE("what Nsight Systems prints, and sums by name") {
    const StepProfile nsight = read_kernel_table(
        "Processing [a.sqlite] with [cuda_gpu_kern_sum.py]...\n\n"
        "Time (%),Total Time (ns),Instances,Avg (ns),Name\n"
        "60.0,6000,3,2000.0,\"void cutlass::Kernel<gemm, 2>(Params)\"\n"
        "40.0,4000,1,4000.0,ncclDevKernel_ReduceScatter_Sum_f32_RING_LL\n",
        "kernels.csv");
    CHECK(us(nsight, ProfileTerm::Product) == doctest::Approx(6.0));
    CHECK(nsight.at(ProfileTerm::Product).calls == 3.0);
    CHECK(us(nsight, ProfileTerm::ReduceScatter) == doctest::Approx(4.0));
    CHECK_FALSE(nsight.span);
    const StepProfile sums =
        read_kernel_table("name,time_us,calls\nspan,50,\nep_combine,20,8\n", "pair.csv");
    CHECK(sums.span->value() * 1e6 == doctest::Approx(50.0));
    CHECK(us(sums, ProfileTerm::Exchange) == doctest::Approx(20.0));
  }

  TEST_CASE("profiles that say nothing are refused with the place and a remedy") {
    const auto of_trace = [](const std::string& text) {
      return refusal([&] { return read_chrome_trace(text, "t.json"); });
    };
    CHECK(of_trace(trace("")).find("t.json: error: has 0 events, and no kernel") == 0);
    CHECK(of_trace(trace(event("cuda_runtime", "cudaLaunchKernel", 1, 0, 5) + "," +
                         event("cpu_op", "aten::mm", 1, 0, 5)))
              .find("has launches of kernels, and no kernel\nhint: record with activities") !=
          std::string::npos);
    CHECK(of_trace(trace(event("kernel", "gemm", 7, 0, -3)))
              .find("event 1 ('gemm'): its duration is -3") != std::string::npos);
    CHECK(of_trace(R"({"traceEvents": [{"ph": "X")").find("no JSON behind byte") !=
          std::string::npos);
    CHECK(of_trace("{}").find("has no list of trace events") != std::string::npos);
    const auto of_table = [](const std::string& text) {
      return refusal([&] { return read_kernel_table(text, "t.csv"); });
    };
    CHECK(of_table("name,time_us,calls\ngemm,-4,1\n").find("t.csv:2:") == 0);
    CHECK(of_table("step,time_s\n1,0\n").find("a step takes more than no time") !=
          std::string::npos);
    CHECK(of_table("name,time_us,calls\nspan,4,\n").find("has no kernel that took time") !=
          std::string::npos);
    CHECK(of_table("a,b\n1,2\n").find("is not a table of kernels or steps") != std::string::npos);
  }

  TEST_CASE("a list of steps keeps ranks") {
    const StepProfile profile =
        read_kernel_table("step,rank,time_s\n1,0,2.0\n1,1,2.5\n2,0,2.1\n", "steps.csv");
    REQUIRE(profile.times.size() == 3);
    CHECK(profile.times[1].rank == 1);
    CHECK(profile.times[2].time.value() == doctest::Approx(2.1));
  }
}

}  // namespace plansearch::io::kernel_profile_test
