// SPDX-License-Identifier: Apache-2.0
#include "answer/diagnose.hpp"

#include <fmt/format.h>

#include <utility>

#include "plansearch/setting_table.hpp"

namespace plansearch {
namespace {

/// A switch that logs and papers leave out is as often the other way; a fault is rarer.
constexpr double kUnstated = 0.3;
constexpr double kFault = 0.1;
constexpr double kRareFault = 0.04;

class Causes {
 public:
  Causes(const PlanRequest& asked, const ResolvedPlan& given, Bytes peak)
      : asked_(asked), given_(given), peak_(peak) {}

  std::vector<Cause> all() && {
    recompute();
    implementation();
    graphs();
    attention();
    micro_batch();
    precision();
    size();
    overlaps();
    sequence_parallel();
    routing();
    experts();
    casts();
    allocator();
    documents();
    links();
    clock();
    return std::move(causes_);
  }

 private:
  [[nodiscard]] const ProblemRequest& request() const { return asked_.request; }
  [[nodiscard]] bool says(Degree degree) const { return request().degrees.has(degree); }

  Cause& add(std::string what, std::string check, double odds) {
    causes_.push_back({std::move(what), std::move(check), odds, asked_, given_.asked.files});
    return causes_.back();
  }

  void add_setting(Setting setting, const std::string& value, std::string what, std::string check,
                   double odds) {
    row_of(setting).set(add(std::move(what), std::move(check), odds).request.request, value);
  }

  void add_degree(Degree degree, int value, std::string what, std::string check) {
    add(std::move(what), std::move(check), kUnstated).request.request.degrees.pin(degree, value);
  }

  void recompute() {
    if (says(Degree::Recompute) || !given_.degrees) return;
    constexpr std::array kLevels{Recompute::None, Recompute::Selective, Recompute::Full};
    for (const Recompute level : kLevels) {
      if (level == given_.degrees->recompute) continue;
      add_degree(Degree::Recompute, static_cast<int>(level),
                 level == Recompute::None ? std::string("nothing is recomputed")
                                          : fmt::format("{} recomputation is on", to_text(level)),
                 "activation checkpointing in the launch command; a second forward in a profile");
    }
  }

  void implementation() {
    if (request().implementation || request().kernels) return;
    for (const std::string_view set : implementation_sets()) {
      if (set == "te") continue;
      add_setting(Setting::Implementation, std::string(set),
                  fmt::format("memory-bound operators run {}", set),
                  set == "compiled" ? "torch.compile, its recompilations"
                                    : "fused kernels in the log; gaps between small kernels",
                  kUnstated);
    }
  }

  void graphs() {
    if (request().cuda_graphs == "0") return;
    const bool on = request().cuda_graphs == "1";
    add_setting(Setting::CudaGraphs, on ? "0" : "1",
                on ? "CUDA graphs are not active" : "a CUDA graph issues the step",
                "launch gaps of the host in a profile", on ? kFault : kUnstated);
  }

  void attention() {
    if (request().attention == "unfused") return;
    const bool runs_flash2 =
        given_.problem.cluster->accelerator.peak_of(DataType::Bf16).has_value();
    if (!request().kernels && runs_flash2) {  // it needs Ampere
      add_setting(Setting::Kernels, "flash2", "attention runs FlashAttention 2",
                  "names of attention kernels in a profile; the version of flash-attn", kRareFault);
    }
    add_setting(Setting::Attention, "unfused", "attention is not fused",
                "softmax and batched products in a profile",
                request().attention ? kRareFault : kFault);
  }

  void micro_batch() {
    if (says(Degree::MicroBatch) || !given_.degrees) return;
    for (const int factor : {2, 4}) {
      const PlanDegrees& plan = *given_.degrees;
      if (plan.micro_batches % factor == 0) {
        add_degree(Degree::MicroBatch, plan.micro_batch * factor,
                   fmt::format("micro-batches of {}", plan.micro_batch * factor),
                   "micro_batch_size, gradient accumulation");
      }
    }
  }

  void precision() {
    const DataType now = given_.problem.precision;
    const bool narrow = now == DataType::Fp8 || now == DataType::Mxfp8 || now == DataType::Nvfp4;
    if (now == DataType::Bf16 || now == DataType::Fp16) {
      add_setting(Setting::Precision, "fp32", "products run in fp32",
                  "sgemm kernels in a profile; --bf16, autocast, bnb_4bit_compute_dtype",
                  request().base_precision ? kFault : kRareFault);
    }
    if (now == DataType::Bf16 && given_.problem.cluster->accelerator.peak_of(DataType::Fp8)) {
      add_setting(Setting::Precision, "fp8", "products run in fp8", "fp8 in the launch command",
                  request().precision ? kRareFault : kFault);
    }
    if (!narrow) return;
    Cause& cause = add(fmt::format("{} is not active: products run in bf16", to_text(now)),
                       "names of matrix kernels in a profile", kFault);
    cause.request.request.precision = "bf16";
    cause.request.request.fp8_recipe.reset();
  }

  /// Steps of other sizes than the usual ones, and of a part of the batch that is said: a ramp,
  /// fewer accumulated passes, one of them.
  void size() {
    const Problem& problem = given_.problem;
    const auto add_size = [&](Setting setting, std::int64_t usual, bool twice, const char* what) {
      const std::int64_t other = twice ? 2 * usual : usual / 2;
      if (other < 1 || (!twice && usual % 2 != 0)) return;
      add_setting(setting, fmt::format("{}", other), fmt::format("{} {}", what, other),
                  "sizes that the log prints when it starts; tokens per step", kUnstated);
    };
    for (const bool twice : {false, true}) {
      if (!request().batch) add_size(Setting::Batch, problem.global_batch, twice, "a batch of");
      if (!request().seq_len && problem.model->stack != StackKind::Graph)
        add_size(Setting::SequenceLength, problem.seq_len, twice, "sequences of");
    }
    if (!request().batch || !given_.degrees) return;
    const std::int64_t passes = given_.degrees->micro_batches;
    const auto add_part = [&](std::int64_t parts, const char* what, const char* check) {
      if (passes % parts == 0)
        add(what, check, kFault).request.request.batch = problem.global_batch / parts;
    };
    add_part(2, "a step has half the sequences",
             "global batch size in the log; ramp-up of the batch");
    if (passes > 2)
      add_part(passes, "a micro-batch was timed, not a step",
               "what an iteration of the log counts: optimizer steps, or passes");
  }

  void overlaps() {
    if (request().overlap) return;
    constexpr std::array<std::array<const char*, 2>, 4> kKinds{
        {{"grad", "gradient reduction"},
         {"param", "gathering of parameters"},
         {"tensor", "tensor-parallel communication"},
         {"expert", "exchange of experts"}}};
    for (const auto& [key, words] : kKinds) {
      add_setting(Setting::Overlap, fmt::format("{}=0", key),
                  fmt::format("{} hides under nothing", words),
                  "communication alone on the timeline; CUDA_DEVICE_MAX_CONNECTIONS", kFault);
    }
  }

  void sequence_parallel() {
    const bool on = given_.degrees && given_.degrees->tensor() > 1 &&
                    given_.degrees->sequence_parallel == SequenceParallel::On;
    if (!on || says(Degree::SequenceParallel)) return;
    add_degree(Degree::SequenceParallel, 0, "sequence parallelism is off",
               "norms over whole sequences on every tensor rank");
  }

  template <auto Constant, typename Value>
  Cause& add_constant(Value value, std::string what, std::string check, double odds) {
    auto changed = std::make_shared<Framework>(*given_.asked.files.framework);
    changed->constants.*Constant = value;
    Cause& cause = add(std::move(what), std::move(check), odds);
    cause.files.framework = std::move(changed);
    return cause;
  }

  /// The fullest rank of every layer decides, but where tokens are dropped.
  void routing() {
    const auto& routing = given_.problem.network->routing;
    if (!routing || routing->capacity_factor || routing->most) return;
    if (!request().routing) {
      add_setting(Setting::Routing, "real", "routers spread tokens unevenly",
                  "tokens of the fullest expert in the log; step times without forced balance",
                  kUnstated);
    }
    add_setting(Setting::Routing, request().routing.value_or("real") + ", capacity factor 1",
                "tokens beyond an even share are dropped",
                "capacity factor and dropped tokens in the launch command and the log", kFault);
  }

  /// One call an expert and product in place of one for all.
  void experts() {
    if (!given_.problem.network->routing) return;
    const Seconds each = Seconds(200e-6);
    if (given_.problem.framework->constants.expert_launch >= each) return;
    add_constant<&FrameworkConstants::expert_launch>(
        each, "experts run one by one, not grouped",
        "as many matrix kernels as experts in a profile; grouped GEMM installed", kFault);
  }

  /// A pass over every weight for each micro-batch: 4 bytes are read and 2 written, and 2 and 4 of its gradient.
  void casts() {
    constexpr double kCast = 12.0;
    if (given_.problem.precision == DataType::Fp32) return;
    add_constant<&FrameworkConstants::accumulation_bytes>(
        given_.problem.framework->constants.accumulation_bytes + kCast,
        "fp32 weights are cast for every micro-batch",
        "copies from fp32 to bf16 in a profile; autocast around fp32 weights", kRareFault);
  }

  /// For every micro-batch the device is drained, and what the allocator keeps is given back and mapped again.
  void allocator() {
    constexpr Seconds kEach = Seconds(0.1);
    constexpr double kFull = 0.9;  // of a device
    if (!given_.degrees || peak_ < kFull * given_.problem.cluster->accelerator.memory) return;
    add_constant<&FrameworkConstants::host_step>(
        given_.problem.framework->constants.host_step + given_.degrees->micro_batches * kEach,
        "the allocator runs full and empties its cache",
        "num_alloc_retries, cache flushes in the log; expandable_segments, a smaller micro-batch",
        kFault)
        .sign = LogSign::Retries;
  }

  void documents() {
    if (request().packing) {
      add("packing is not active: documents see the whole sequence", "masks of the data loader",
          kFault)
          .request.request.packing.reset();
      return;
    }
    constexpr std::int64_t kShort = 512;
    if (given_.problem.seq_len < 4 * kShort) return;
    add_setting(Setting::Packing, fmt::format("{}", kShort),
                "documents are far shorter than the sequence",
                "lengths of the documents; how the data loader packs them", kRareFault);
  }

  /// A cable, a card or a link that runs at half its rate slows every group that uses it.
  void links() {
    const auto& tiers = given_.problem.cluster->tiers;
    for (std::size_t i = 0; i < tiers.size(); ++i) {
      const bool used = i == 0 || given_.problem.gpus > tiers[i - 1].size;
      if (!used) continue;
      Cause& cause = add(
          fmt::format("{} at half its rate", tiers[i].name),
          fmt::format("nccl-tests over {}; error counters, NCCL_IB_HCA, topology", tiers[i].name),
          kFault);
      // Measured rates follow the line rate where the files are read.
      const Bandwidth rate = tiers[i].nics ? tiers[i].nics->bandwidth : tiers[i].bandwidth;
      auto& set = cause.request.request.set;
      set = fmt::format("{}{}tiers.{}.{}={}B/s", set.value_or(""), set ? "; " : "", tiers[i].name,
                        tiers[i].nics ? "nic_bandwidth" : "bandwidth", 0.5 * rate.value());
      cause.files = {};
    }
  }

  /// One device that others wait for.
  void clock() {
    constexpr double kSlow = 0.75;
    Cause& cause =
        add("one device runs at three quarters of its clock",
            "nvidia-smi -q -d PERFORMANCE: power or thermal slowdown; step time by rank", kFault);
    auto slower = std::make_shared<Cluster>(*given_.problem.cluster);
    for (auto& peak : slower->accelerator.peak) {
      if (peak) peak = *peak * kSlow;
    }
    cause.files.cluster = std::move(slower);
    cause.sign = LogSign::SlowRank;
  }

  const PlanRequest& asked_;
  const ResolvedPlan& given_;
  Bytes peak_;
  std::vector<Cause> causes_;
};

}  // namespace

std::vector<Cause> possible_causes(const PlanRequest& asked, const ResolvedPlan& given,
                                   Bytes peak) {
  return Causes(asked, given, peak).all();
}

}  // namespace plansearch
