// SPDX-License-Identifier: Apache-2.0
// Flags that change what a framework file says: rank order, overlap and orders.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plansearch/cluster.hpp"
#include "plansearch/dispatcher.hpp"
#include "plansearch/framework.hpp"
#include "plansearch/model_description.hpp"
#include "plansearch/network.hpp"
#include "plansearch/problem_request.hpp"
#include "schedule/passes/pass.hpp"

namespace plansearch {

/// "tp-cp-dp-pp", fastest first. Axes that are left out keep their place at the end; tp stands for
/// its three axes, ep is accepted and has no place of its own (experts fold the ranks of a stage).
void apply_rank_order(Framework& framework, std::string_view text);
[[nodiscard]] std::string rank_order_text(const Framework& framework);

/// "all", "none", or a list of grad, param, pipeline, tensor, context, expert: what is named is
/// hidden (fully, where the framework itself does not hide it), everything else is exposed. Kinds
/// with 0 or 1 ("param=0") change those alone.
void apply_overlap(Framework& framework, std::string_view text);
[[nodiscard]] std::string overlap_text(const Framework& framework);

/// Exchanges hide behind attention that stands in one layer with the experts: nothing is beside
/// those of layers of experts alone (Megatron-LM@d98e8a64 core/pipeline_parallel/combined_1f1b.py:
/// "only GPTModel is supported for EP A2A overlapping"; hybrid patterns are a HybridModel).
void expose_exchanges_of_lone_experts(Framework& framework, const Network& network);

/// An order asked for by name or file is priced on any framework, with a note; devices go on with
/// the next step if they do wherever it is run. A target stays as it is. Orders of a list that the
/// framework does not run are left out, with a note; InputError, with who does, if it runs none.
void take_asked_orders(Framework& framework, const ProblemRequest& request,
                       std::vector<std::string>& notes);
/// Notes degrees that the framework cannot switch off, where another value was asked for.
void note_fixed_degrees(const Framework& framework, const PinnedDegrees& asked,
                        std::vector<std::string>& notes);

/// The shipped frameworks that some program is.
[[nodiscard]] const std::vector<Framework>& shipped_programs();
/// The shipped frameworks of which it holds, as flags: "--framework nnscaler".
[[nodiscard]] std::vector<std::string> run_by(const std::function<bool(const Framework&)>& holds);
/// The names of those that can, "deepspeed, megatron".
[[nodiscard]] std::string frameworks_that(const std::function<bool(const Framework&)>& can);

/// InputError for options that contradict each other. `attention`: flash, unfused, or empty.
void refuse_contradictions(const ProblemRequest& choice, std::string_view attention,
                           DataType precision);

/// InputError for tensors that the framework keeps on the device, and for machines of whose hosts
/// nothing is known.
void check_offload(const Framework& framework, const Cluster& machine, HostBits asked);
/// Refuses kernels that the network prices by curves of their own and the framework does not name.
void check_named_kernels(const Network& network, const Framework& framework);
/// InputError where states are paged and the machine says nothing of its hosts.
void check_paged_states(const Framework& framework, const Cluster& machine);
/// Checks several sets; from then on the framework keeps nothing on hosts of which nothing is
/// known.
void take_offloads(Framework& framework, const Cluster& machine, const std::vector<int>& asked);
/// "1": parameters are updated in backward. InputError for other words and frameworks that cannot.
void apply_optimizer_in_backward(Framework& framework, const std::string& text);

/// InputError for modules that the framework or the model has not, and for those that cannot be
/// recomputed in fp8 under the recipe.
void check_recompute_modules(const Framework& framework, const ModelDescription& model,
                             const Network& network, LayerModules asked);
/// The latter.
[[nodiscard]] LayerModules unscaled_modules(const Framework& framework);

/// The first need that the machine does not meet, in words, with those of the software.
[[nodiscard]] std::optional<std::string> unmet_need(std::span<const MachineNeed> needs,
                                                    const Cluster& machine);
/// The framework has no dispatchers there whose needs the machine does not meet; its own stays.
void leave_dispatchers_out(Framework& framework, const Cluster& machine);
/// InputError for dispatchers that the framework does not know, or whose needs the machine does not
/// meet, and for models without experts.
void check_dispatcher(const Framework& framework, const ModelDescription& model,
                      const Cluster& machine, DispatcherId asked);

/// How evenly routers spread tokens: "KIND" or "KIND, capacity factor C", KIND a row of the
/// framework's table or the tokens of the fullest rank over the mean. InputError for other words,
/// for models without experts and for frameworks that drop no tokens.
void apply_routing(Framework& framework, const ModelDescription& model, Network& network,
                   const std::string& text);
/// The routing as answers say it: a kind, or the load that the model states.
[[nodiscard]] std::string routing_text(const Framework& framework, const Network& network);

/// Changes `framework` by the software of the machine, then by the settings of the question: a set
/// of implementations (eager, fused, compiled, te), single kernels, separated by spaces, commas or
/// '+' (operators for which neither names a kernel run eagerly), main gradients, recipe, graphs.
/// InputError for words that are not known.
void apply_software(Framework& framework, const SoftwareStack& machine,
                    const ProblemRequest& choice, DataType precision);

/// The passes of --passes: "all", "none", or names of the table between commas. InputError for
/// others.
[[nodiscard]] PassSet read_passes(const std::string& text);

/// InputError at a flag that does not know a word.
[[noreturn]] void refuse_word(std::string_view flag, std::string_view word,
                              const std::vector<std::string>& known);

}  // namespace plansearch
