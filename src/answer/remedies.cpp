// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
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

/// The only framework of the chip of a machine, where it has one.
std::optional<std::string> framework_of_chip(const ChipSoftwareTable& chips,
                                             const Cluster& cluster) {
  const ChipSoftware* chip = software_of(chips, cluster.accelerator.name);
  return chip == nullptr ? std::nullopt : chip->framework;
}

/// The usual framework of decoders, where another one is the default of the network or the task.
std::optional<Change> by_framework(const ResolvedQuestion& asked, std::string_view usual) {
  const ProblemRequest& request = asked.request;
  const bool open = request.framework.empty() && request.target.empty();
  const auto own = framework_of_chip(chip_software(shipped_data()), *asked.problem.cluster);
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

/// No moments, where there are some.
std::optional<Change> by_optimizer(const ResolvedQuestion& asked) {
  const OptimizerKind kind = asked.problem.model->training.optimizer;
  if (kind != OptimizerKind::Adam && kind != OptimizerKind::Muon) return std::nullopt;
  Change change{"with --optimizer adafactor, no moments,", asked.request};
  change.request.optimizer = "adafactor";
  return change;
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
  if (asked.problem.model->training.optimizer == OptimizerKind::Adam &&
      asked.problem.framework->matrix_updates) {
    changes.push_back({"with --optimizer muon, one moment of matrices instead of two,", request});
    changes.back().request.optimizer = "muon";
  }
  if (auto optimizer = by_optimizer(asked)) changes.push_back(*std::move(optimizer));
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

/// The fewest GPUs above `above`; where no batch is said, that of tuning grows with them.
std::optional<LeastSize> least_above(const ResolvedQuestion& asked, int above,
                                     SearchSession& session) {
  if (auto least = least_gpus(asked, above, session)) return least;
  const Cluster& cluster = *asked.problem.cluster;
  if (!is_tuning(asked.request) || asked.request.batch) return std::nullopt;
  for (std::int64_t size = 2LL * std::max(above, 1); size <= cluster.accelerators(); size *= 2) {
    const int more = static_cast<int>(size);
    Change change{fmt::format("on {} GPUs", grouped(more)), asked.request};
    change.request.gpus = more;
    change.request.nodes.reset();
    if (bad_gpu_count(cluster, more)) continue;
    auto best = best_after(asked, change, more, session);
    if (best && best->admitted == MemoryFit::Fits) return LeastSize{more, *std::move(best)};
  }
  return std::nullopt;
}

/// More GPUs, with the degrees asked for or, failing that, with any.
std::optional<std::string> remedy_by_gpus(const ResolvedQuestion& asked, int gpus,
                                          SearchSession& session) {
  const auto at = [&](const ResolvedQuestion& question,
                      const char* words) -> std::optional<std::string> {
    const auto least = least_above(question, gpus, session);
    if (!least) return std::nullopt;
    return text_of({fmt::format("on {} GPUs{}", grouped(least->gpus), words), least->best});
  };
  if (auto found = at(asked, "")) return found;
  const auto free = unpinned(asked);
  return free ? at(*free, " and with other degrees") : std::nullopt;
}

/// A question after several changes, and their words.
struct JointChange {
  ResolvedQuestion question;
  std::string words;
  bool adapts = false;
};

/// The changes that save most memory, each on top of those before it; adapters on that of the framework.
std::vector<JointChange> joint_changes(const ResolvedQuestion& asked) {
  std::vector<JointChange> joint{{asked, "with"}};
  const auto add = [&](const JointChange& before, const std::optional<Change>& change,
                       bool adapts = false) {
    if (!change) return;
    constexpr std::string_view kWith = "with";
    const std::string own = change->words.substr(0, change->words.find(','));
    try {
      joint.push_back({asked_again(before.question, change->request),
                       before.words + own.substr(kWith.size()), adapts});
    } catch (const InputError&) {  // the rest of the question contradicts it
    }
  };
  const bool pairs = asked.request.task == "dpo";
  add(joint.front(), by_framework(asked, pairs ? "deepspeed" : "megatron"));
  const JointChange cut = joint.back();
  add(joint.back(), by_optimizer(joint.back().question));
  add(joint.back(), by_gradients(joint.back().question));
  if (!is_tuning(asked.request)) return joint;
  for (const Change& change : by_adapters(cut.question, 1)) add(cut, change, true);
  return joint;
}

/// The fewest GPUs that several changes at once fit on: with all weights, and with adapters.
std::vector<std::string> remedies_by_joint(const std::vector<JointChange>& joint, int gpus,
                                           SearchSession& session) {
  std::vector<std::string> found;
  std::array<bool, 2> known{};
  for (const JointChange& one : joint) {
    if (known[one.adapts] || &one == &joint.front()) continue;
    const auto least = least_above(one.question, gpus - 1, session);
    if (!least) continue;
    known[one.adapts] = true;
    const std::string size = least->gpus == gpus ? "" : fmt::format(" --gpus {}", least->gpus);
    found.push_back(text_of({one.words + size, least->best}));
  }
  return found;
}

/// The plan of the whole machine that is tight, or exceeds its memory least.
std::optional<std::string> nearest_of_machine(const JointChange& frugal, SearchSession& session) {
  const Cluster& cluster = *frugal.question.problem.cluster;
  const int all = cluster.accelerators();
  ProblemRequest request = frugal.question.request;
  request.nodes.reset();
  request.gpus = all;
  const ResolvedQuestion whole = asked_again(frugal.question, request);
  if (const auto tight = session.best(whole, all, "the whole machine"))
    return text_of({fmt::format("{} --gpus {}", frugal.words, all), *tight});
  const auto miss = session.closest(whole, all, "the whole machine");
  if (!miss) return std::nullopt;
  const MemoryBreakdown& memory = miss->estimate.memory;
  const Bytes states = memory.parameters + memory.gradients + memory.optimizer;
  return fmt::format(
      "all {} GPUs of {} do not hold it, even {}: the closest plan takes {} of {} a GPU, {} of it "
      "parameters, gradients and optimizer states",
      grouped(all), cluster.name, frugal.words, to_text(memory.total()), to_text(miss->limit),
      to_text(states));
}

/// The smallest card with more memory that holds it, among those with the software of this one that
/// are no slower.
std::optional<std::string> remedy_by_machine(const ResolvedQuestion& asked,
                                             SearchSession& session) {
  const ChipSoftwareTable chips = chip_software(shipped_data());
  const auto own = framework_of_chip(chips, *asked.problem.cluster);
  const Accelerator& small = asked.problem.cluster->accelerator;
  const auto replaces = [&](const Cluster& cluster) {
    const Accelerator& card = cluster.accelerator;
    return card.memory > small.memory &&
           card.peak_of(asked.problem.precision) >= small.peak_of(asked.problem.precision) &&
           framework_of_chip(chips, cluster) == own;
  };
  std::multimap<Bytes, std::string> larger;
  for (const auto& [card, machine] : machine_of_every_card()) {
    if (replaces(machine.cluster)) larger.emplace(machine.cluster.accelerator.memory, machine.name);
  }
  for (const auto& [memory, machine] : larger) {
    ProblemRequest request = asked.request;
    request.hardware = machine;
    request.nodes.reset();
    request.gpus.reset();
    try {
      const ResolvedQuestion there = load_problem(request);
      if (const auto least = least_above(there, 0, session))
        return text_of({fmt::format("with --hw {} --gpus {}", machine, least->gpus), least->best});
    } catch (const InputError&) {  // settings that this machine does not know
    }
  }
  return std::nullopt;
}

/// More GPUs; several changes at once; that the machine is too small, and one that is not.
void add_other_sizes(const ResolvedQuestion& asked, int gpus, MemoryFit now, SearchSession& session,
                     std::vector<std::string>& remedies) {
  const auto add = [&](std::optional<std::string> found) {
    if (found) remedies.push_back(*std::move(found));
    return found.has_value();
  };
  if (add(remedy_by_gpus(asked, gpus, session))) return;
  if (!remedies.empty() && !is_tuning(asked.request)) return;
  const std::vector<JointChange> joint = joint_changes(asked);
  std::ranges::move(remedies_by_joint(joint, gpus, session), std::back_inserter(remedies));
  if (!remedies.empty() || now != MemoryFit::No) return;
  if (joint.size() > 1) add(nearest_of_machine(joint.back(), session));
  add(remedy_by_machine(asked, session));
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
    const auto free = unpinned(asked);
    if (remedies.empty() && free) attempt({"with other degrees", free->request});
    if (remedies.empty() && free) {
      for (const Change& change : possible_changes(*free, gpus))
        if (remedies.empty() && change.words.starts_with("with "))
          attempt({"with other degrees and " + change.words.substr(5), change.request});
    }
    if (sizes == OtherSizes::Yes) add_other_sizes(asked, gpus, now, session, remedies);
    for (std::string& one : tight) {
      if (remedies.size() < kEnough && now != MemoryFit::Tight) remedies.push_back(std::move(one));
    }
  });
  return remedies;
}

}  // namespace plansearch
