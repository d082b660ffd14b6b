// SPDX-License-Identifier: Apache-2.0
// Computes: class profiles, each part once.
// Source: placed_network.hpp (placement, policies), local_work.hpp (micro-batch).
// Assumes: plans are legal.
// Units: seconds, bytes.
// Checked by: tests/unit/evaluate/class_profile_test.cpp (no plan sees another one's numbers)
#include "evaluate/block/profile_maker.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "cost/kernels/compute_cost.hpp"
#include "evaluate/block/host_copies.hpp"
#include "evaluate/block/local_work.hpp"
#include "plan/primitives/offload.hpp"
#include "plan/primitives/recompute.hpp"
#include "plan/stages/pipeline_shape.hpp"
#include "schedule/table.hpp"

namespace plansearch {
namespace {

std::size_t mixed(const void* part, std::uint64_t number) {
  std::uint64_t hash = reinterpret_cast<std::uintptr_t>(part);
  hash = (hash ^ number << 48U ^ number) * 0xFF51AFD7ED558CCDULL;
  return static_cast<std::size_t>(hash ^ hash >> 32U);
}

}  // namespace

std::uint64_t ProfileMaker::PassForm::packed() const noexcept {
  return static_cast<std::uint64_t>(on_host) << 12U | static_cast<std::uint64_t>(modules) << 4U |
         static_cast<std::uint64_t>(recompute) << 2U | static_cast<std::uint64_t>(joins) << 1U |
         static_cast<std::uint64_t>(leaves_node);
}

std::size_t ProfileMaker::LocalKey::hash() const noexcept {
  return mixed(placed, static_cast<std::uint64_t>(micro_batch) ^ static_cast<std::uint64_t>(form)
                                                                     << 32U);
}

std::size_t KernelKey::hash() const noexcept {
  return mixed(nullptr,
               static_cast<std::uint64_t>(sizes) << 20U ^ static_cast<std::uint64_t>(micro_batch));
}

std::size_t ProfileMaker::ChoiceKey::hash() const noexcept {
  return local.hash() ^ static_cast<std::size_t>(dispatcher) << 24U;
}

std::size_t ProfileMaker::ProfileKey::hash() const noexcept {
  return mixed(states, static_cast<std::uint64_t>(micro_batch) << 4U ^
                           static_cast<std::uint64_t>(pieces - 1) << 24U ^ form.packed() << 40U ^
                           static_cast<std::uint64_t>(dispatcher) << 32U ^
                           static_cast<std::uint64_t>(partly));
}

std::size_t ProfileMaker::TimesKey::hash() const noexcept {
  return mixed(work, static_cast<std::uint64_t>(pieces) << 4U ^ form.packed() << 16U);
}

ProfileMaker::ProfileMaker(Problem problem)
    : problem_(std::move(problem)),
      context_(pricing_context(problem_)),
      rates_(concurrency_rates(problem_.cluster->accelerator.concurrency)),
      splits_backward_(some_order_splits(*problem_.framework)),
      joins_(exchange_is_joined(*problem_.framework, *problem_.network)),
      index_(index_network(*problem_.network)) {
  find_tried();
}

bool ProfileMaker::serves(const Problem& problem) const {
  const auto decisive = [](const Problem& of) {
    return std::tie(of.network, of.cluster, of.framework, of.precision);
  };
  return decisive(problem) == decisive(problem_);
}

const std::vector<RepeatedShares>& ProfileMaker::repeated(std::uint8_t modules) const {
  auto& known = repeated_.at(modules);
  if (const auto* shares = known.load(std::memory_order_acquire)) return *shares;
  const std::lock_guard lock(mutex_);
  if (const auto* shares = known.load(std::memory_order_relaxed)) return *shares;
  PlanDegrees plan;
  plan.modules = modules;
  const SelectiveRecompute selective = selective_of(*problem_.framework, plan);
  auto made = std::make_unique<std::vector<RepeatedShares>>();
  for (const Block& block : problem_.network->blocks)
    made->push_back(repeated_shares(block, selective));
  known.store(made.get(), std::memory_order_release);
  kept_shares_.push_back(std::move(made));
  return *kept_shares_.back();
}

ProfileMaker::PassForm ProfileMaker::pass_form(const PlanDegrees& plan) const {
  return {plan.recompute, plan.modules, static_cast<HostBits>(plan.on_host & kKeptByLayers),
          leaves_node(plan), joins(plan.schedule)};
}

bool ProfileMaker::joins(ScheduleId schedule) const {
  return joins_ && schedule_row(schedule).joins;
}

std::shared_ptr<const PlacedNetwork> ProfileMaker::placed(const StatesKey& key,
                                                          const PlanDegrees& plan,
                                                          const DeviceMesh& mesh,
                                                          const Placements* placements) const {
  const StatesKey own = placement_key(key, mesh, *problem_.cluster);
  return placed_.get(own, [&] {
    StatesKey sizes = own;
    sizes.axes = {};
    sizes.ranks = 1;
    // Between cuts of single operators tensors take paths by the links where the ranks lie.
    auto blocks = blocks_.get(placements == nullptr ? sizes : own, [&] {
      return std::make_shared<const PlacedBlocks>(
          place_blocks(context_, index_, plan, mesh, placements));
    });
    return std::make_shared<const PlacedNetwork>(mesh, std::move(blocks), number(sizes));
  });
}

std::shared_ptr<const PlacedNetwork> ProfileMaker::placed(
    const PlanDegrees& plan, const DeviceMesh& mesh,
    const std::shared_ptr<const Placements>& placements) const {
  return placed(states_key(plan, mesh, problem_, number(placements)), plan, mesh, placements.get());
}

std::shared_ptr<const ShardedStates> ProfileMaker::states(
    const PlanDegrees& plan, const DeviceMesh& mesh,
    const std::shared_ptr<const Placements>& placements) const {
  const StatesKey key = states_key(plan, mesh, problem_, number(placements));
  return states_.get(key, [&] {
    const Problem& problem = problem_;
    const TensorPolicies policies =
        tensor_policies(plan, mesh, *problem.framework, problem.precision);
    const PlacementRules rules =
        placement_rules(*problem.network, plan, mesh, *problem.framework, placements.get());
    return std::make_shared<const ShardedStates>(
        keep_states(context_, index_, placed(key, plan, mesh, placements.get()), rules, policies));
  });
}

template <typename Visit>
void ProfileMaker::for_each_local_block(const PlacedBlocks& placed, LocalForm form,
                                        Visit visit) const {
  const Network& network = *problem_.network;
  const std::vector<RepeatedShares>& shares = repeated(form.modules);
  PlanDegrees plan = placed.plan;
  plan.micro_batch = form.micro_batch;
  plan.modules = form.modules;
  const SelectiveRecompute selective = selective_of(*problem_.framework, plan);
  thread_local std::vector<double> extents;
  placed_extents(network, plan, *problem_.framework, extents);
  fill_fullest_rank(network, placed.mesh, form.micro_batch, extents);
  for (std::size_t b = 0; b < network.blocks.size(); ++b) {
    const Block& block = network.blocks[b];
    const PlacedBlock& own = placed.blocks[b];
    const BlockCuts& kernels = own.pieces ? own.pieces->cuts : own.cuts;
    visit(LocalBlock{block,
                     index_[b],
                     own,
                     own.pieces ? own.pieces->repeated : shares[b],
                     {block, index_[b], own.cuts, extents},
                     {block, index_[b], kernels, extents},
                     form.micro_batch,
                     selective,
                     host_tensors(form.on_host)});
  }
}

std::shared_ptr<const LocalKernels> ProfileMaker::kernels(const PlacedNetwork& placed,
                                                          int micro_batch) const {
  return kernels_.get(KernelKey{placed.sizes, micro_batch}, [&] {
    auto kernels = std::make_shared<LocalKernels>();
    std::size_t operators = 0;
    for (const Block& block : problem_.network->blocks) operators += block.operators.size();
    kernels->blocks.reserve(placed.blocks().size());
    kernels->operators.reserve(operators);
    for_each_local_block(*placed.shared, {micro_batch}, [&](const LocalBlock& local) {
      add_block_kernels(context_, local, *kernels);
    });
    return kernels;
  });
}

std::shared_ptr<const LocalWork> ProfileMaker::work(
    const std::shared_ptr<const PlacedNetwork>& placed, int micro_batch,
    DispatcherId dispatcher) const {
  const LocalKey key{placed.get(), micro_batch, static_cast<std::uint32_t>(dispatcher)};
  return work_.get(key, [&] {
    auto work = std::make_shared<LocalWork>();
    work->placed = placed;
    work->kernels = kernels(*placed, micro_batch);
    std::size_t messages = 0;
    for (const PlacedBlock& block : placed->blocks()) messages += block.messages.size();
    work->blocks.reserve(placed->blocks().size());
    work->messages.reserve(messages);
    for (const PlacedBlock& block : placed->blocks())
      add_block_messages(context_, block, micro_batch, dispatcher, *work);
    return work;
  });
}

std::shared_ptr<const LocalWork> ProfileMaker::work(const PlanDegrees& plan,
                                                    const DeviceMesh& mesh) const {
  return work(placed(plan, mesh, nullptr), plan.micro_batch / plan.pieces, plan.dispatcher);
}

std::shared_ptr<const LocalMemory> ProfileMaker::memory(
    const std::shared_ptr<const PlacedBlocks>& placed, const PlanDegrees& plan) const {
  const LocalForm form{plan.micro_batch, plan.modules,
                       static_cast<HostBits>(plan.on_host & kKeptByLayers)};
  const auto beside = static_cast<std::uint32_t>(form.on_host) << 8U | form.modules;
  return memory_.get(LocalKey{placed.get(), form.micro_batch, beside}, [&] {
    LocalMemory memory{placed, {}};
    memory.blocks.reserve(placed->blocks.size());
    const bool edges = !problem_.network->edges.empty();
    for_each_local_block(*placed, form, [&](const LocalBlock& local) {
      memory.blocks.push_back(block_memory(context_, local));
      if (edges) memory.ports.push_back(block_ports(context_, local));
    });
    return std::make_shared<const LocalMemory>(std::move(memory));
  });
}

std::vector<SavedTensor> ProfileMaker::saved_tensors(const ClassProfile& profile,
                                                     std::size_t block) const {
  std::vector<std::vector<SavedTensor>> all;
  for_each_local_block(
      *profile.memory->placed,
      {profile.made_for.micro_batch, profile.modules, profile.made_for.on_host},
      [&](const LocalBlock& b) { all.push_back(saved_of(context_, b, profile.recompute)); });
  return std::move(all[block]);
}

BlockParts ProfileMaker::parts(const ClassProfile& profile, std::size_t block,
                               const BlockWork& work, const KeptBlock& kept) const {
  const auto level = static_cast<std::size_t>(profile.recompute);
  const PlacedBlock& placed = profile.memory->placed->blocks[block];
  const RepeatedShares& all =
      placed.pieces ? placed.pieces->repeated : repeated(profile.modules)[block];
  const std::vector<double>& shares = all[level];
  KernelSum again = work.repeated[level];
  if (profile.modules != 0 && profile.recompute == Recompute::Selective) {
    again = repeated_kernels(work, shares);
  }
  const SelectiveRecompute selective = selective_of(*problem_.framework, profile.made_for);
  return {problem_.network->blocks[block],
          work,
          kept,
          profile.made_for.pieces,
          profile.recompute,
          shares,
          again,
          sends_again(profile.recompute, selective),
          rates_,
          profile.skew,
          splits_backward_,
          {},
          profile.joins,
          host_copies(context_, profile.blocks[block].memory.offloaded, kept.fetched)};
}

/// One piece computes while messages of another are on their way. Weights that a kernel gathers for
/// itself stay until the last piece has used them.
void ProfileMaker::take_turns(const PlacedBlock& placed, int pieces, BlockMemory& memory) const {
  const double alive = std::min(1.0, 2.0 / pieces);
  memory.cached *= alive;
  memory.stream *= alive;
  memory.logits *= alive;
  if (problem_.framework->sharding.depth_gather == Scope::Use) {
    memory.gathered_unit = placed.gathered.all;
  }
}

void ProfileMaker::set_memory(std::shared_ptr<const LocalMemory> memory, const PlanDegrees& plan,
                              ClassProfile& profile) const {
  profile.recompute = plan.recompute;
  profile.modules = plan.modules;
  profile.joins = joins(plan.schedule);
  profile.blocks.resize(memory->blocks.size());
  for (std::size_t b = 0; b < profile.blocks.size(); ++b) {
    BlockProfile& block = profile.blocks[b];
    const PlacedBlock& placed = memory->placed->blocks[b];
    block.memory = memory->blocks[b][static_cast<std::size_t>(plan.recompute)];
    if (plan.pieces > 1) take_turns(placed, plan.pieces, block.memory);
    block.parameters = placed.parameters;
    block.shared = placed.shared;
    block.updates = placed.updates;
  }
  profile.memory = std::move(memory);
}

void ProfileMaker::fill_memory(const PlanDegrees& plan,
                               const std::shared_ptr<const PlacedNetwork>& placed,
                               EarlyProfile& early) const {
  early.context = context_.id;
  early.timed = false;
  ClassProfile& profile = early.profile;
  set_memory(memory(placed->shared, plan), plan, profile);
  early.placed = placed;
  profile.made_for = plan;
  profile.kept.reset();
  if (plan.recompute_layers == 0) return;
  PlanDegrees keeping = plan;
  keeping.recompute = Recompute::None;
  keeping.modules = 0;
  set_memory(profile.memory, keeping, early.kept);
  early.kept.made_for = keeping;
  profile.kept = std::shared_ptr<const ClassProfile>(std::shared_ptr<void>(), &early.kept);
}

void ProfileMaker::make_module_sets(const PlacedNetwork& placed) const {
  returned_.clear();
  set_shares_.clear();
  const Network& network = *problem_.network;
  module_sets_ =
      sets_of_modules(network, problem_.framework->recompute_modules & modules_of(network));
  for_each_local_block(*placed.shared, {1}, [&](const LocalBlock& local) {
    returned_.push_back(returned_parts(context_, local, module_sets_));
  });
  for (const std::uint8_t set : module_sets_) {
    auto& shares = set_shares_.emplace_back();
    for (const Block& block : network.blocks) {
      auto& again = shares.emplace_back();
      const std::vector<double> all = plansearch::repeated_shares(
          block, Recompute::Selective, {SelectiveRule::Modules, LayerModules(set)});
      for (std::size_t i = 0; i < all.size(); ++i) {
        if (all[i] > 0.0) again.push_back({i, all[i]});
      }
    }
  }
}

std::shared_ptr<const ModuleChoices> ProfileMaker::module_choices(
    const std::shared_ptr<const PlacedNetwork>& placed, const PlanDegrees& plan) const {
  sets_made_.run([&] { make_module_sets(*placed); });
  const ChoiceKey key{
      {placed->sizes, plan.micro_batch}, placed->shared->plan.dispatcher, plan.on_host};
  return choices_.get(key, [&] {
    const auto local = kernels(*placed, plan.micro_batch);
    std::vector<ModuleBlock> blocks;
    const LocalForm form{plan.micro_batch, 0, plan.on_host};
    for_each_local_block(*placed->shared, form, [&](const LocalBlock& one) {
      ModuleBlock& block = blocks.emplace_back();
      const std::size_t b = blocks.size() - 1;
      block.parts = grouped_parts(returned_[b], saved_parts(context_, one));
      for (const auto& shares : set_shares_) {
        Seconds& time = block.times.emplace_back();
        for (const SharedOperator& again : shares[b]) {
          time += local->blocks[b].operators[again.index].forward * again.share;
        }
      }
    });
    for (const BlockRun& run : problem_.network->order) {
      blocks[run.block].copies += static_cast<double>(run.count);
    }
    return std::make_shared<ModuleChoices>(choose_modules(module_sets_, blocks));
  });
}

void ProfileMaker::fill_least_times(EarlyProfile& early) const {
  const PlanDegrees& plan = early.profile.made_for;
  const Piece piece = piece_of(plan);
  const auto& placed = early.placed;
  const auto local = kernels(*placed, piece.sequences);
  const WaitChord chord = wait_chord(*placed, piece, plan.dispatcher);
  static const KeptBlock kNoMessages;
  const auto fill = [&](ClassProfile& profile) {
    for (std::size_t b = 0; b < profile.blocks.size(); ++b) {
      const BlockWork silent{local->blocks[b], {}};
      BlockTimes& times = profile.blocks[b];
      times = {};
      BlockParts least = parts(profile, b, silent, kNoMessages);
      chord.add(b, 1.0, least.waits);
      // Messages that modules send again are not counted, nor bytes that they leave to be copied.
      if (plan.modules != 0) {
        least.copies = {};
        least.waits.recompute[static_cast<std::size_t>(Recompute::Selective)] = Seconds(0);
      }
      sum_passes(context_, least, times);
    }
  };
  early.profile.joins = early.kept.joins = joins_;
  fill(early.profile);
  if (early.profile.kept) fill(early.kept);
  early.timed = true;
  early.dispatcher = plan.dispatcher;
}

std::shared_ptr<ClassProfile> ProfileMaker::make(std::shared_ptr<const ShardedStates> states,
                                                 const ProfileKey& key,
                                                 const PlanDegrees& plan) const {
  auto profile = std::make_shared<ClassProfile>();
  profile->made_for = plan;
  profile->maker = context_.id;
  profile->work = work(states->placed, key.micro_batch / key.pieces, plan.dispatcher);
  set_memory(memory(states->placed->shared, plan), plan, *profile);
  profile->states = std::move(states);
  profile->shared = profile->states->shared;
  profile->skew = key.form.leaves_node ? context_.constants.collective_skew_across_nodes
                                       : context_.constants.collective_skew;
  set_times(key, *profile);
  for (std::size_t b = 0; b < profile->blocks.size(); ++b)
    profile->blocks[b].steps = profile->states->blocks[b].steps;
  return profile;
}

void ProfileMaker::set_times(const ProfileKey& key, ClassProfile& profile) const {
  const auto& kept = profile.states->blocks;
  const auto own = [](const KeptBlock& b) {
    return !b.passes.empty() || b.fetched.forward > Bytes(0);
  };
  if (std::any_of(kept.begin(), kept.end(), own)) {
    for (std::size_t b = 0; b < profile.blocks.size(); ++b) {
      sum_passes(context_, parts(profile, b), profile.blocks[b]);
    }
    return;
  }
  const TimesKey wanted{profile.work.get(), key.pieces, key.form};
  const auto times = times_.get(wanted, [&] {
    auto made = std::make_shared<PassTimes>();
    made->work = profile.work;
    made->blocks.resize(profile.blocks.size());
    for (std::size_t b = 0; b < made->blocks.size(); ++b) {
      sum_passes(context_, parts(profile, b), made->blocks[b]);
    }
    return made;
  });
  for (std::size_t b = 0; b < profile.blocks.size(); ++b)
    static_cast<BlockTimes&>(profile.blocks[b]) = times->blocks[b];
}

std::shared_ptr<const ClassProfile> ProfileMaker::profile(
    const PlanDegrees& plan, const DeviceMesh& mesh,
    const std::shared_ptr<const Placements>& placements) const {
  std::shared_ptr<const ShardedStates> state = states(plan, mesh, placements);
  const bool partly = plan.recompute_layers > 0;
  const ProfileKey key{state.get(),     plan.micro_batch, plan.pieces,
                       pass_form(plan), plan.dispatcher,  partly};
  return profiles_.get(key, [&] {
    auto profile = make(std::move(state), key, plan);
    if (partly) profile->kept = kept(plan, mesh, placements);
    return std::shared_ptr<const ClassProfile>(std::move(profile));
  });
}

std::shared_ptr<const ClassProfile> ProfileMaker::kept(
    const PlanDegrees& plan, const DeviceMesh& mesh,
    const std::shared_ptr<const Placements>& placements) const {
  PlanDegrees others = plan;
  others.recompute = Recompute::None;
  others.recompute_layers = 0;
  others.modules = 0;
  return profile(others, mesh, placements);
}

bool ProfileMaker::leaves_node(const PlanDegrees& plan) const {
  return plan.pipeline > 1 && plan.devices() > problem_.cluster->accelerators_per_node;
}

bool ProfileMaker::is_own(const ClassProfile& profile, const PlanDegrees& plan,
                          const DeviceMesh& mesh) const {
  const PlanDegrees& other = profile.made_for;
  const DeviceMesh others = make_device_mesh(other, problem_.framework->rank_order);
  return profile.maker == context_.id && other.micro_batch == plan.micro_batch &&
         other.pieces == plan.pieces && other.dispatcher == plan.dispatcher &&
         (other.recompute_layers > 0) == (plan.recompute_layers > 0) &&
         pass_form(other) == pass_form(plan) &&
         states_key(other, others, problem_) == states_key(plan, mesh, problem_);
}

BlockProgram ProfileMaker::program(const ClassProfile& profile, std::size_t block,
                                   BlockPass pass) const {
  BlockProgram program;
  build_block_program(context_, parts(profile, block), pass, program);
  return program;
}

bool ProfileMaker::posts_ahead(const ClassProfile& profile, std::size_t block) const {
  return plansearch::posts_ahead(context_, parts(profile, block));
}

std::vector<PhaseLine> ProfileMaker::passes(const ClassProfile& profile, std::size_t block) const {
  std::vector<PhaseLine> lines;
  BlockProfile sum;
  sum_passes(context_, parts(profile, block), sum, &lines);
  return lines;
}

}  // namespace plansearch
