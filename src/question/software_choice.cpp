// SPDX-License-Identifier: Apache-2.0
#include "question/framework_flags.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "plan/primitives/offload.hpp"
#include "plansearch/error.hpp"

namespace plansearch {
namespace {

constexpr std::string_view kAttention = "flash";
constexpr std::array<std::pair<std::string_view, Fp8Recipe>, 5> kRecipes{
    {{"tensorwise", Fp8Recipe::Tensorwise},
     {"rowwise", Fp8Recipe::Rowwise},
     {"delayed", Fp8Recipe::Delayed},
     {"block", Fp8Recipe::Block},
     {"mxfp8", Fp8Recipe::Mxfp8}}};

void apply_set(Framework& framework, const std::string& set) {
  const auto& sets = implementation_sets();
  if (std::ranges::find(sets, set) == sets.end()) {
    refuse_word("--implementation", set, {sets.begin(), sets.end()});
  }
  choose_set(framework.operators, set);
}

/// Whether a kernel of a recurrence is of that library.
bool is_library(const Framework& framework, std::string_view word) {
  return std::any_of(framework.named_kernels.begin(), framework.named_kernels.end(),
                     [&](const NamedKernel& kernel) { return kernel.library == word; });
}

/// Attention kernels are names of the accelerator's curves, those of recurrences of their library.
void apply_kernels(Framework& framework, std::string_view text) {
  for (const std::string& word : words_of(text, " ,+")) {
    if (is_library(framework, word)) {
      framework.libraries.push_back(word);
    } else if (word.starts_with(kAttention)) {
      framework.attention_kernel = word;
    } else if (!choose_kernel(framework.operators, word)) {
      std::vector<std::string> known{"flash1", "flash2", "flash3"};
      for (const std::string& name : operator_kernels()) known.push_back(name);
      for (const NamedKernel& kernel : framework.named_kernels) {
        const bool new_name = std::find(known.begin(), known.end(), kernel.library) == known.end();
        if (new_name) known.push_back(kernel.library);
      }
      refuse_word("--kernels", word, known);
    }
  }
}

void apply_main_grads(Framework& framework, const std::string& text, DataType precision) {
  const auto type = parse_data_type(text);
  if (type != DataType::Bf16 && type != DataType::Fp16 && type != DataType::Fp32) {
    refuse_word("--main-grads", text, {"bf16", "fp16", "fp32"});
  }
  const auto policy = framework.precision.find(precision);
  if (policy == framework.precision.end()) return;
  policy->second.reduction = *type;
  // Where backward leaves gradients beside no other buffer, they are the main ones.
  if (policy->second.main_gradient || policy->second.gradient != *type) {
    policy->second.main_gradient = *type;
  }
}

/// Sets the format for every number format that the framework trains in: which one holds is settled
/// elsewhere. An optimizer that updates the weights themselves makes moments like them (PyTorch:
/// zeros_like), so that 16-bit moments of such products are those of such weights and gradients.
void apply_states(Framework& framework, const std::string& text) {
  const auto type = parse_stored_type(text);
  const bool known = type == DataType::Fp32 || type == DataType::Bf16 || type == DataType::Fp16 ||
                     type == DataType::Fp8 || type == DataType::Int8;
  if (!known) refuse_word("--optimizer-states", text, {"fp32", "bf16", "fp16", "fp8", "int8"});
  for (auto& [precision, policy] : framework.precision) {
    policy.moment = *type;
    if (policy.master || *type != policy.activation || *type == DataType::Fp32) continue;
    policy.parameter = *type;
    policy.gradient = *type;
  }
}

/// Products of a smaller format read their weights expanded; one that is no smaller holds for all.
void apply_base(Framework& framework, const std::string& text) {
  const auto type = parse_stored_type(text);
  const bool plain = type == DataType::Fp32 || type == DataType::Bf16 || type == DataType::Fp16;
  const bool narrow = type == DataType::Fp8 || type == DataType::Int8 || type == DataType::Nf4 ||
                      type == DataType::Int4;
  if (!plain && !narrow) {
    refuse_word("--base-precision", text, {"fp32", "bf16", "fp16", "fp8", "int8", "nf4", "int4"});
  }
  for (auto& [precision, policy] : framework.precision) {
    policy.frozen = plain ? *type : policy.activation;
    if (narrow) policy.quantised = *type;
  }
}

void apply_recipe(Framework& framework, const std::string& text) {
  const auto found =
      std::ranges::find_if(kRecipes, [&](const auto& recipe) { return recipe.first == text; });
  if (found == kRecipes.end()) {
    refuse_word("--fp8-recipe", text, {"tensorwise", "rowwise", "delayed", "block", "mxfp8"});
  }
  framework.fp8_recipe = found->second;
  const auto policy = framework.precision.find(DataType::Fp8);
  if (found->second == Fp8Recipe::Mxfp8 && policy != framework.precision.end()) {
    policy->second.matmul = DataType::Mxfp8;
  }
}

/// One launch issues all kernels of a captured step.
void apply_graphs(Framework& framework, const std::string& text) {
  if (text == "0" || text == "none") return;
  if (text != "1" && text != "full") refuse_word("--cuda-graphs", text, {"0", "1"});
  FrameworkConstants& c = framework.constants;
  c.host_launch = c.collective_skew = c.collective_skew_across_nodes = Seconds(0);
}

/// An ability that a framework may have, and uses where it is asked for with 1.
struct Switch {
  std::string_view flag;
  bool Framework::*can;
  bool Framework::*does;
  std::string_view otherwise;  ///< what a framework does that cannot
  std::string_view others;     ///< before the names of those that can
};
/// Beside pairs of a forward and a backward; legality asks for an order that has them.
constexpr Switch kDelay{"--delay-wgrad", &Framework::can_delay_weight_gradients,
                        &Framework::delays_weight_gradients,
                        "runs weight gradients with their passes", "these can run them later: "};
constexpr Switch kInBackward{"--optimizer-in-backward", &Framework::has_optimizer_in_backward,
                             &Framework::optimizer_in_backward, "updates parameters after backward",
                             "these update them in it: "};
constexpr Switch kPaged{"--paged-states", &Framework::has_paged_states, &Framework::paged_states,
                        "keeps optimizer states on the device", "these page them: "};

void apply_switch(Framework& framework, const Switch& row, const std::string& text) {
  if (text != "0" && text != "1") refuse_word(row.flag, text, {"0", "1"});
  if (text == "1" && !(framework.*row.can)) {
    const auto can = [&](const Framework& other) { return other.*row.can; };
    throw InputError({}, fmt::format("{} 1: {} {}", row.flag, framework.name, row.otherwise),
                     std::string(row.others) + frameworks_that(can));
  }
  framework.*row.does = text == "1";
}

void apply_operators(Framework& framework, const std::optional<std::string>& set,
                     const std::optional<std::string>& kernels) {
  const std::vector<std::string> words = words_of(kernels.value_or(""), " ,+");
  const bool losses = std::ranges::all_of(words, [](const std::string& word) {
    return word == "chunked-loss" || word == "fused-linear-loss";
  });
  if (set) {
    apply_set(framework, *set);
  } else if (kernels && !losses) {  // a loss in pieces says nothing of the other operators
    choose_set(framework.operators, "eager");
  }
  if (kernels) apply_kernels(framework, *kernels);
  if (set || kernels) take_kept_tensors(framework);
}

[[noreturn]] void refuse_without_host(const Cluster& machine, const std::string& asked) {
  throw InputError({}, fmt::format("{}: {} says nothing of its hosts", asked, machine.name),
                   "add host: {memory, memory_bandwidth, to_device, from_device} to the profile "
                   "(docs/hardware_profiles.md)");
}

}  // namespace

void refuse_contradictions(const ProblemRequest& choice, std::string_view attention,
                           DataType precision) {
  std::vector<std::string> fused;
  for (const std::string& word : words_of(choice.kernels.value_or(""), " ,+")) {
    if (word.starts_with(kAttention)) fused.push_back(word);
  }
  if (fused.size() > 1) {
    throw InputError({},
                     fmt::format("--kernels names {} attention kernels: {}", fused.size(),
                                 fmt::join(fused, ", ")),
                     "a run has one");
  }
  if (attention == "unfused" && !fused.empty()) {
    throw InputError(
        {},
        fmt::format("--attention unfused and --kernels {} contradict each other", fused.front()),
        "leave one of them out: flash kernels are fused attention");
  }
  const bool narrow = precision == DataType::Fp8 || precision == DataType::Mxfp8;
  if (choice.fp8_recipe && !narrow) {
    throw InputError({},
                     fmt::format("--fp8-recipe {} and --precision {} contradict each other",
                                 *choice.fp8_recipe, to_text(precision)),
                     "leave the recipe out, or give --precision fp8");
  }
  if (precision == DataType::Mxfp8 && choice.fp8_recipe.value_or("mxfp8") != "mxfp8") {
    throw InputError({},
                     fmt::format("--fp8-recipe {} and --precision mxfp8 contradict each other",
                                 *choice.fp8_recipe),
                     "give --precision fp8, or --fp8-recipe mxfp8");
  }
}

void check_offload(const Framework& framework, const Cluster& machine, HostBits asked) {
  for (unsigned bit = 1; bit <= asked; bit <<= 1U) {
    const auto one = static_cast<HostBits>(asked & bit);
    if (kept_on_device(framework, one) == 0) continue;
    throw InputError(
        {},
        fmt::format("--offload {}: {} keeps them on the device", host_text(one), framework.name),
        "these keep them on the host: " + frameworks_that([&](const Framework& other) {
          return kept_on_device(other, one) == 0;
        }));
  }
  if (asked != 0 && !machine.host) {
    refuse_without_host(machine, fmt::format("--offload {}", host_text(asked)));
  }
}

void take_offloads(Framework& framework, const Cluster& machine, const std::vector<int>& asked) {
  for (const int tensors : asked) check_offload(framework, machine, static_cast<HostBits>(tensors));
  if (machine.host) return;
  framework.optimizer_offload.reset();
  framework.offloads = {};
}

void check_paged_states(const Framework& framework, const Cluster& machine) {
  if (!framework.paged_states || machine.host) return;
  refuse_without_host(machine, "--paged-states 1");
}

void apply_optimizer_in_backward(Framework& framework, const std::string& text) {
  apply_switch(framework, kInBackward, text);
}

void check_recompute_modules(const Framework& framework, const ModelDescription& model,
                             const Network& network, LayerModules asked) {
  constexpr std::string_view kFlag = "--recompute-modules";
  if (framework.recompute_modules.none()) {
    throw InputError({},
                     fmt::format("{} {}: {} recomputes no modules by name", kFlag,
                                 to_text(asked, ","), framework.name),
                     "these do: " + frameworks_that([](const Framework& other) {
                       return other.recompute_modules.any();
                     }));
  }
  const LayerModules unknown = asked & ~framework.recompute_modules;
  if (unknown.any()) {
    refuse_word(kFlag, to_text(unknown, ","),
                words_of(to_text(framework.recompute_modules, ","), ","));
  }
  const LayerModules present = modules_of(network);
  const LayerModules missing = asked & ~present;
  if (missing.any()) {
    throw InputError(
        {}, fmt::format("{} {}: {} has no such module", kFlag, to_text(missing, ","), model.name),
        "it has " + to_text(present & framework.recompute_modules, ", "));
  }
  const LayerModules unscaled = asked & unscaled_modules(framework);
  if (unscaled.any()) {
    throw InputError({},
                     fmt::format("{} {}: delayed scaling of fp8 does not support their "
                                 "recomputation (transformer_config.py)",
                                 kFlag, to_text(unscaled, ",")),
                     "choose another --fp8-recipe, or other modules");
  }
}

void leave_dispatchers_out(Framework& framework, const Cluster& machine) {
  std::erase_if(framework.dispatchers, [&](const TokenDispatcher& one) {
    return one.id != framework.dispatcher.id && unmet_need(one.needs, machine);
  });
}

void check_dispatcher(const Framework& framework, const ModelDescription& model,
                      const Cluster& machine, DispatcherId asked) {
  constexpr std::string_view kFlag = "--dispatcher";
  if (asked == kOwnDispatcher || (asked == kAnyDispatcher && model.moe)) return;
  if (!model.moe) {
    throw InputError({}, fmt::format("{} {}: {} has no experts", kFlag, to_text(asked), model.name),
                     "leave it out");
  }
  const auto knows = [&](const Framework& other) {
    return std::ranges::any_of(other.dispatchers,
                               [&](const TokenDispatcher& one) { return one.id == asked; });
  };
  const auto own = std::ranges::find(framework.dispatchers, asked, &TokenDispatcher::id);
  if (own != framework.dispatchers.end()) {
    const auto unmet = unmet_need(own->needs, machine);
    if (!unmet) return;
    throw InputError({}, fmt::format("{} {}: {}", kFlag, to_text(asked), *unmet),
                     "use another --dispatcher, such as all-to-all");
  }
  const std::vector<std::string> names = transformed(framework.dispatchers, &TokenDispatcher::name);
  const std::string others = frameworks_that(knows);
  throw InputError(
      {}, fmt::format("{} {}: {} has no such dispatcher", kFlag, to_text(asked), framework.name),
      fmt::format("it has {}{}", fmt::join(names, ", "),
                  others.empty() ? others : "; these have it: " + others));
}

LayerModules unscaled_modules(const Framework& framework) {
  if (framework.fp8_recipe != Fp8Recipe::Delayed) return {};
  return bit_of(LayerModule::LayerNorm) | bit_of(LayerModule::MoeActivation);
}

void apply_software(Framework& framework, const SoftwareStack& machine,
                    const ProblemRequest& choice, DataType precision) {
  if (machine.attention_kernel) framework.attention_kernel = machine.attention_kernel;
  apply_operators(framework, machine.implementation, machine.kernels);
  apply_operators(framework, choice.implementation, choice.kernels);
  if (choice.optimizer_states) apply_states(framework, *choice.optimizer_states);
  if (choice.main_grads) apply_main_grads(framework, *choice.main_grads, precision);
  if (choice.base_precision) apply_base(framework, *choice.base_precision);
  if (choice.fp8_recipe) apply_recipe(framework, *choice.fp8_recipe);
  if (choice.optimizer_in_backward) {
    apply_optimizer_in_backward(framework, *choice.optimizer_in_backward);
  }
  if (choice.paged_states) apply_switch(framework, kPaged, *choice.paged_states);
  if (choice.cuda_graphs) apply_graphs(framework, *choice.cuda_graphs);
  if (choice.delay_wgrad && *choice.delay_wgrad != "none") {
    apply_switch(framework, kDelay, *choice.delay_wgrad);
  }
}

PassSet read_passes(const std::string& text) {
  if (text == "all") return all_passes();
  if (text == "none") return 0;
  std::vector<std::string> names = transformed<std::string>(program_passes(), &ProgramPass::name);
  PassSet set = 0;
  for (const std::string& word : split(text, ", ")) {
    const auto found = std::ranges::find(names, word);
    if (found == names.end()) {
      const std::string guess = did_you_mean(word, names);
      throw InputError({}, fmt::format("--passes: unknown pass '{}'", word),
                       fmt::format("{}all, none, or a list of {}",
                                   guess.empty() ? "" : guess + "; ", fmt::join(names, ", ")));
    }
    set |= PassSet{1} << static_cast<unsigned>(found - names.begin());
  }
  return set;
}

}  // namespace plansearch
