// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <array>
#include <utility>

#include "answer/search_answer.hpp"
#include "base/units.hpp"
#include "plan/primitives/offload.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/gpu_count.hpp"
#include "question/training_task.hpp"
#include "question/usual_software.hpp"
#include "report/plan_cells.hpp"

namespace plansearch {
namespace {

/// One thing the user could do differently.
struct Change {
  std::string words;
  ProblemRequest request;
};

/// In the order they are tried: what changes the plan least comes first.
constexpr std::array kUnpinned{Degree::Recompute,        Degree::Zero,     Degree::MicroBatch,
                               Degree::SequenceParallel, Degree::Schedule, Degree::Chunks,
                               Degree::TensorOut,        Degree::Pipeline, Degree::Context,
                               Degree::Expert,           Degree::Data};

/// Parts of a layer that cost little to run again.
std::optional<Change> by_modules(const ResolvedQuestion& asked) {
  const ProblemRequest& request = asked.request;
  const LayerModules cheap = asked.problem.framework->recompute_modules & discards_results() &
                             modules_of(*asked.problem.network);
  if (request.degrees.has(Degree::RecomputeModules) || cheap.none()) return std::nullopt;
  Change change{{}, request};
  change.request.degrees.pin(Degree::RecomputeModules, static_cast<int>(cheap.to_ulong()));
  change.request.degrees.pin(Degree::Recompute, static_cast<int>(Recompute::Selective));
  change.request.degrees.release(Degree::RecomputeLayers);
  change.request.limits.release(Degree::Recompute);
  change.words = "with --recompute selective --recompute-modules " + to_text(cheap, ",");
  return change;
}

/// Logits in pieces, where those of one sequence are a twentieth of the memory of a device.
std::optional<Change> by_loss(const ResolvedQuestion& asked) {
  const ProblemRequest& request = asked.request;
  constexpr std::string_view kWord = "fused-linear-loss";
  constexpr auto kLoss = static_cast<std::size_t>(MemoryBound::Loss);
  const OperatorTable& table = asked.problem.framework->operators;
  const OperatorPasses* now = table.passes(MemoryBound::Loss);
  const bool known = table.known[kLoss].contains("fused_linear");
  const std::int64_t words = asked.problem.model->embedding.vocab;
  const bool text = asked.problem.model->stack != StackKind::Vision &&
                    asked.problem.model->stack != StackKind::Graph;
  if (!known || !text || (now != nullptr && now->multiplies)) return std::nullopt;
  constexpr double kBytes = 6.0;  // of a score and its fp32 copy
  const Bytes logits(kBytes * static_cast<double>(asked.problem.seq_len) *
                     static_cast<double>(words));
  if (logits < asked.problem.cluster->accelerator.memory * 0.05) return std::nullopt;
  Change change{{}, request};
  const std::string others = request.kernels ? *request.kernels + " " : "";
  change.request.kernels = others + std::string(kWord);
  change.words = fmt::format("with --kernels {}{}{} (logits, {} a sequence, in pieces)",
                             others.empty() ? "" : "\"", *change.request.kernels,
                             others.empty() ? "" : "\"", to_text(logits));
  return change;
}

/// The usual framework of decoders, where another one is the default of the network or the task.
std::optional<Change> by_framework(const ResolvedQuestion& asked, std::string_view usual) {
  const ProblemRequest& request = asked.request;
  const bool open = request.framework.empty() && request.target.empty();
  const ChipSoftwareTable chips = chip_software(shipped_data());
  const ChipSoftware* chip = software_of(chips, asked.problem.cluster->accelerator.name);
  const bool own = chip != nullptr && chip->framework;  // that of the chip is its only one
  if (!open || own || asked.problem.framework->name.starts_with(usual)) return std::nullopt;
  Change change{fmt::format("with --framework {}", usual), request};
  change.request.framework = usual;
  return change;
}

/// Gradients kept in 16 bits, where their sums are kept in 32.
std::optional<Change> by_gradients(const ResolvedQuestion& asked) {
  const ProblemRequest& request = asked.request;
  const auto policy = asked.problem.framework->precision.find(asked.problem.precision);
  const bool wide = policy != asked.problem.framework->precision.end() &&
                    policy->second.main_gradient == DataType::Fp32;
  if (request.main_grads || !wide) return std::nullopt;
  Change change{"with --main-grads bf16", request};
  change.request.main_grads = "bf16";
  return change;
}

/// Tensors on the host, the fewest first, where the user has not said which.
void add_host(const ResolvedQuestion& asked, std::vector<Change>& changes) {
  const ProblemRequest& request = asked.request;
  const Framework& framework = *asked.problem.framework;
  if (request.degrees.has(Degree::Offload) || !framework.has_program) return;  // searched
  for (const HostBits choice : host_choices(framework)) {
    changes.push_back({fmt::format("with --offload {}", host_text(choice)), request});
    changes.back().request.degrees.pin(Degree::Offload, choice);
  }
}

/// Adapters in place of all weights, for one who tunes a trained network or has a node or less.
std::vector<Change> by_adapters(const ResolvedQuestion& asked, int gpus) {
  const ProblemRequest& request = asked.request;
  const StackKind stack = asked.problem.model->stack;
  const bool text = stack != StackKind::Vision && stack != StackKind::Graph;
  const bool small = gpus <= asked.problem.cluster->accelerators_per_node || is_tuning(request);
  if (!text || !small || request.base_precision) return {};
  const bool adapted = request.task == "lora" || request.lora_rank;
  const bool open = request.framework.empty() && request.target.empty();
  std::vector<Change> changes;
  for (const bool quantized : {false, true}) {
    if (adapted && !quantized) continue;
    const bool pairs = request.task == "dpo";
    Change change{quantized ? "with --task qlora" : "with --task lora", request};
    if (pairs) {
      change.words = fmt::format("with --lora-rank {}", kUsualAdapterRank);
      if (quantized) change.words += " --base-precision nf4";
      change.request.lora_rank = kUsualAdapterRank;
    }
    if (open && !pairs) {
      change.request.framework = asked.problem.framework->name;
      change.words += " --framework " + change.request.framework;
    }
    if (!pairs) change.request.task = "lora";
    if (quantized) change.request.base_precision = "nf4";
    changes.push_back(std::move(change));
  }
  return changes;
}

/// Quantised adapters of pairs where experts and sequences are cut, which the default of pairs cannot.
std::optional<Change> by_cut_pairs(const ResolvedQuestion& asked) {
  auto change = by_framework(asked, "deepspeed");
  if (!change || asked.request.task != "dpo") return std::nullopt;
  change->request.lora_rank = kUsualAdapterRank;
  change->request.base_precision = "nf4";
  change->words += fmt::format(" --lora-rank {} --base-precision nf4", kUsualAdapterRank);
  return change;
}

/// A sequence, or a pair of them, for every GPU.
std::optional<Change> by_batch(const ResolvedQuestion& asked, int gpus) {
  const std::int64_t each = asked.request.task == "dpo" ? 2 : 1;
  const std::int64_t least = each * gpus;
  if (asked.problem.global_batch >= least) return std::nullopt;
  Change change{fmt::format("with --batch {}", least), asked.request};
  change.request.batch = least;
  return change;
}

std::vector<Change> possible_changes(const ResolvedQuestion& asked, int gpus) {
  const ProblemRequest& request = asked.request;
  std::vector<Change> changes;
  if (auto batch = by_batch(asked, gpus)) changes.push_back(*std::move(batch));
  if (auto loss = by_loss(asked)) changes.push_back(*std::move(loss));
  if (auto modules = by_modules(asked)) changes.push_back(*std::move(modules));
  for (const Degree degree : kUnpinned) {
    if (!request.degrees.has(degree) && !request.limits.has(degree)) continue;
    changes.push_back(
        {fmt::format("with another {}", flag_of(key_of(degree, request.degrees))), request});
    changes.back().request.degrees.release(degree);
    changes.back().request.limits.release(degree);
  }
  if (request.mem_reserve) {
    changes.push_back({"without --mem-reserve", request});
    changes.back().request.mem_reserve.reset();
  }
  if (request.rollout) {
    changes.push_back({"without --rollout", request});
    changes.back().request.rollout.reset();
  }
  if (request.space == "data") {
    changes.push_back({"without --space data", request});
    changes.back().request.space.clear();
  }
  if (auto gradients = by_gradients(asked)) changes.push_back(*std::move(gradients));
  add_host(asked, changes);
  if (asked.problem.model->training.optimizer == OptimizerKind::Adam) {
    if (asked.problem.framework->matrix_updates) {
      changes.push_back({"with --optimizer muon, one moment of matrices instead of two,", request});
      changes.back().request.optimizer = "muon";
    }
    changes.push_back({"with --optimizer adafactor, no moments,", request});
    changes.back().request.optimizer = "adafactor";
  }
  const StackKind stack = asked.problem.model->stack;
  const bool fixed = stack == StackKind::Vision || stack == StackKind::Graph;  // by its sizes
  if (asked.problem.seq_len >= 2048 && !fixed) {
    const std::int64_t half = asked.problem.seq_len / 2;
    changes.push_back({fmt::format("with --seq-len {}", half), request});
    changes.back().request.seq_len = half;
  }
  const char* usual = is_tuning(request) ? "fsdp2" : "megatron";
  if (auto framework = by_framework(asked, usual)) changes.push_back(*std::move(framework));
  return changes;
}

/// A change of the question, and the best plan that it leads to.
struct FoundRemedy {
  std::string how;
  BestPlan best;
  [[nodiscard]] bool fits() const { return best.admitted == MemoryFit::Fits; }
};

/// The best plan after a change; none where the rest of the question contradicts it.
std::optional<BestPlan> best_after(const ResolvedQuestion& asked, const Change& change, int gpus,
                                   SearchSession& session) {
  try {
    return session.best(asked_again(asked, change.request), gpus, change.words);
  } catch (const InputError&) {
    return std::nullopt;
  }
}

/// A plan fits for readers where it does for searches; of others the risk is said.
std::string text_of(const FoundRemedy& remedy) {
  const std::string fits = remedy.fits()
                               ? std::string("it fits")
                               : fmt::format("it is tight ({:.0f} % to run out of memory)",
                                             100.0 * remedy.best.memory_risk);
  return fmt::format("{} {}: {} takes {} per step", remedy.how, fits, short_plan(remedy.best.plan),
                     to_text(remedy.best.estimate.step.total()));
}

/// Every degree free again; nothing when none was pinned or limited.
std::optional<ResolvedQuestion> unpinned(const ResolvedQuestion& asked) {
  if (asked.request.degrees.empty() && asked.request.limits.empty()) return std::nullopt;
  ResolvedQuestion free = asked;
  free.request.degrees = {};
  free.request.limits = {};
  return free;
}

/// Twice the GPUs and so on: where none is said, the batch of tuning grows with them.
std::optional<FoundRemedy> remedy_by_replicas(const ResolvedQuestion& asked, int gpus,
                                              SearchSession& session) {
  const Cluster& cluster = *asked.problem.cluster;
  if (!is_tuning(asked.request) || asked.request.batch) return std::nullopt;
  for (std::int64_t more = 2LL * gpus; more <= cluster.accelerators(); more *= 2) {
    const int size = static_cast<int>(more);
    Change change{fmt::format("on {} GPUs", grouped(size)), asked.request};
    change.request.gpus = size;
    change.request.nodes.reset();
    if (bad_gpu_count(cluster, size)) continue;
    const auto best = best_after(asked, change, size, session);
    if (best && best->admitted == MemoryFit::Fits) return FoundRemedy{change.words, *best};
  }
  return std::nullopt;
}

/// More GPUs than a batch of tuning has sequences, each with a part of the network.
std::optional<FoundRemedy> remedy_by_model_parallelism(const ResolvedQuestion& asked, int gpus,
                                                       SearchSession& session) {
  const auto change = by_framework(asked, "megatron");
  if (!change || !is_tuning(asked.request)) return std::nullopt;
  try {
    const auto least = least_gpus(asked_again(asked, change->request), gpus, session);
    if (!least) return std::nullopt;
    return FoundRemedy{fmt::format("{} --gpus {}", change->words, least->gpus), least->best};
  } catch (const InputError&) {  // it has no trainer for the task
    return std::nullopt;
  }
}

/// More GPUs, with the degrees asked for or, failing that, with any.
std::string remedy_by_gpus(const ResolvedQuestion& asked, int gpus, SearchSession& session) {
  const auto at = [](const LeastSize& least, const std::string& words) {
    return text_of(
        FoundRemedy{fmt::format("on {} GPUs{}", grouped(least.gpus), words), least.best});
  };
  if (const auto least = least_gpus(asked, gpus, session)) return at(*least, "");
  if (const auto free = unpinned(asked)) {
    if (const auto least = least_gpus(*free, gpus, session)) {
      return at(*least, " and with other degrees");
    }
  }
  if (const auto found = remedy_by_replicas(asked, gpus, session)) return text_of(*found);
  if (const auto found = remedy_by_model_parallelism(asked, gpus, session)) return text_of(*found);
  const Cluster& cluster = *asked.problem.cluster;
  if (gpus >= cluster.accelerators()) return {};
  return fmt::format(
      "more GPUs of {} do not help with a batch of {}: sizes up to all {} were tried", cluster.name,
      grouped(asked.problem.global_batch), grouped(cluster.accelerators()));
}

}  // namespace

std::vector<std::string> find_remedies(const ResolvedQuestion& asked, int gpus, OtherSizes sizes,
                                       SearchSession& session, MemoryFit now) {
  constexpr std::size_t kEnough = 4;
  std::vector<std::string> remedies, tight;
  const auto attempt = [&](const Change& change) {
    if (remedies.size() + 1 >= kEnough) return;
    const auto best = best_after(asked, change, gpus, session);
    if (!best) return;
    const FoundRemedy remedy{change.words, *best};
    (remedy.fits() ? remedies : tight).push_back(text_of(remedy));
  };
  session.ask_aside(remedies, "changes that may help", [&] {
    bool has_room = false;  // with tensors on the host: the fewest will do
    for (const Change& change : possible_changes(asked, gpus)) {
      const bool host = change.request.degrees.has(Degree::Offload) &&
                        !asked.request.degrees.has(Degree::Offload);
      if (host && has_room) continue;
      const std::size_t before = remedies.size();
      attempt(change);
      has_room = has_room || (host && remedies.size() > before);
    }
    for (const Change& change : by_adapters(asked, gpus))
      if (remedies.empty() || is_tuning(asked.request)) attempt(change);
    const auto pairs = by_cut_pairs(asked);
    if (remedies.empty() && pairs) attempt(*pairs);
    const auto free = unpinned(asked);
    if (remedies.empty() && free) attempt({"with other degrees", free->request});
    if (remedies.empty() && free) {
      for (const Change& change : possible_changes(*free, gpus))
        if (remedies.empty() && change.words.starts_with("with "))
          attempt({"with other degrees and " + change.words.substr(5), change.request});
    }
    std::string more;
    if (sizes == OtherSizes::Yes) more = remedy_by_gpus(asked, gpus, session);
    if (!more.empty()) remedies.push_back(std::move(more));
    for (std::string& one : tight) {
      if (remedies.size() < kEnough && now != MemoryFit::Tight) remedies.push_back(std::move(one));
    }
  });
  return remedies;
}

}  // namespace plansearch
