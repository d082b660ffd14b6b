// SPDX-License-Identifier: Apache-2.0
// Makes class profiles from parts that many classes share: a placement, the states kept under it,
// the work and the memory of one micro-batch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/parallel.hpp"
#include "evaluate/block/block_program.hpp"
#include "evaluate/block/class_profile.hpp"
#include "evaluate/block/module_choices.hpp"
#include "evaluate/block/shared_cache.hpp"
#include "plansearch/placements.hpp"

namespace plansearch {

struct KernelKey {
  std::uint32_t sizes;  ///< number of PlacedNetwork
  int micro_batch;
  [[nodiscard]] std::size_t hash() const noexcept;
  bool operator==(const KernelKey&) const = default;
};

/// Thread-safe: parts are values: two threads may make the same one.
class ProfileMaker {
 public:
  explicit ProfileMaker(Problem problem);

  /// Whether the profiles of that problem are these: it may have other GPUs and another batch.
  [[nodiscard]] bool serves(const Problem& problem) const;
  /// A number of its own for every maker of the process.
  [[nodiscard]] std::uint64_t id() const { return context_.id; }
  [[nodiscard]] std::shared_ptr<const ClassProfile> profile(
      const PlanDegrees& plan, const DeviceMesh& mesh,
      const std::shared_ptr<const Placements>& placements = nullptr) const;
  [[nodiscard]] std::shared_ptr<const PlacedNetwork> placed(
      const PlanDegrees& plan, const DeviceMesh& mesh,
      const std::shared_ptr<const Placements>& placements) const;
  /// Memory and parameters of every block of the class of `plan`, and no times.
  void fill_memory(const PlanDegrees& plan, const std::shared_ptr<const PlacedNetwork>& placed,
                   EarlyProfile& early) const;
  /// Least times of the class whose memory is there: its kernels and what they wait for. Times of
  /// a forward beside a backward are among them where some order of the framework joins them.
  void fill_least_times(EarlyProfile& early) const;
  /// The least waits of a piece on its way through the whole network.
  [[nodiscard]] BlockWaits least_waits(const PlacedNetwork& placed, Piece piece,
                                       DispatcherId dispatcher) const;
  /// Kernels of a piece of so many sequences.
  [[nodiscard]] const NetworkWork& network_work(const PlacedNetwork& placed, int sequences) const;
  /// Whether the order joins forwards and backwards.
  [[nodiscard]] bool joins(ScheduleId schedule) const;
  /// The dispatchers that are worth trying: a slower one on the way of another is not.
  [[nodiscard]] const std::vector<DispatcherId>& tried() const { return tried_; }
  /// Sets of modules worth recomputing in plans of this micro-batch and these tensors on the host.
  [[nodiscard]] std::shared_ptr<const ModuleChoices> module_choices(
      const std::shared_ptr<const PlacedNetwork>& placed, const PlanDegrees& plan) const;
  /// Whether `profile` would make this profile for the plan.
  [[nodiscard]] bool is_own(const ClassProfile& profile, const PlanDegrees& plan,
                            const DeviceMesh& mesh) const;
  /// The work of one micro-batch of every block, by operator and message (see operator_price.hpp).
  [[nodiscard]] std::shared_ptr<const LocalWork> work(const PlanDegrees& plan,
                                                      const DeviceMesh& mesh) const;
  [[nodiscard]] const NetworkIndex& index() const { return index_; }
  /// The tensors that one micro-batch of one copy of a block keeps (see saved_of).
  [[nodiscard]] std::vector<SavedTensor> saved_tensors(const ClassProfile& profile,
                                                       std::size_t block) const;
  /// Kernels and messages of one pass of one block, as they are issued. The profile must outlive
  /// what it points to.
  [[nodiscard]] BlockProgram program(const ClassProfile& profile, std::size_t block,
                                     BlockPass pass) const;
  /// Whether kernels of the block run beside its messages.
  [[nodiscard]] bool posts_ahead(const ClassProfile& profile, std::size_t block) const;
  [[nodiscard]] const ConcurrencyRates& rates() const { return rates_; }
  /// Every communication inside a pass of one block; counts and times per micro-batch and copy.
  [[nodiscard]] std::vector<PhaseLine> passes(const ClassProfile& profile, std::size_t block) const;

 private:
  /// Keys are addresses: a value keeps the parts it was made from alive.
  struct LocalKey {
    const void* placed;  ///< a network, or its blocks wherever ranks lie
    int micro_batch;
    std::uint32_t form;  ///< dispatcher, or modules and what the host holds
    [[nodiscard]] std::size_t hash() const noexcept;
    bool operator==(const LocalKey&) const = default;
  };
  /// The time and memory of sets of modules depend on the sizes of kept tensors, not on ranks.
  struct ChoiceKey {
    KernelKey local;
    DispatcherId dispatcher;
    HostBits on_host;
    [[nodiscard]] std::size_t hash() const noexcept;
    bool operator==(const ChoiceKey&) const = default;
  };
  /// The inputs of passes beside their kernels and messages.
  struct PassForm {
    Recompute recompute;
    std::uint8_t modules;
    HostBits on_host;
    bool leaves_node;  ///< the pipeline does
    bool joins;
    [[nodiscard]] std::uint64_t packed() const noexcept;
    bool operator==(const PassForm&) const = default;
  };
  struct ProfileKey {
    const ShardedStates* states;
    int micro_batch;
    int pieces;
    PassForm form;
    DispatcherId dispatcher;
    bool partly;  ///< the first layers of a chunk alone are recomputed
    [[nodiscard]] std::size_t hash() const noexcept;
    bool operator==(const ProfileKey&) const = default;
  };

  struct TimesKey {
    const LocalWork* work;
    int pieces;
    PassForm form;
    [[nodiscard]] std::size_t hash() const noexcept;
    bool operator==(const TimesKey&) const = default;
  };
  /// Times of all blocks where the states send nothing inside a pass: under any policies.
  struct PassTimes {
    std::shared_ptr<const LocalWork> work;
    std::vector<BlockTimes> blocks;
  };

  /// The waits of pieces of several sequences lie above the chord between two sizes near them.
  struct WaitChord {
    const std::vector<BlockWaits>* smaller;
    const std::vector<BlockWaits>* larger;
    double share = 0.0;  ///< of the larger one

    void add(std::size_t block, double copies, BlockWaits& sum) const {
      sum.add((*smaller)[block], copies * (1.0 - share));
      if (share > 0.0) sum.add((*larger)[block], copies * share);
    }
  };

  [[nodiscard]] std::shared_ptr<const PlacedNetwork> placed(const StatesKey& key,
                                                            const PlanDegrees& plan,
                                                            const DeviceMesh& mesh,
                                                            const Placements* placements) const;
  [[nodiscard]] std::shared_ptr<const ShardedStates> states(
      const PlanDegrees& plan, const DeviceMesh& mesh,
      const std::shared_ptr<const Placements>& placements) const;
  [[nodiscard]] std::shared_ptr<const LocalKernels> kernels(const PlacedNetwork& placed,
                                                            int micro_batch) const;
  [[nodiscard]] std::shared_ptr<const LocalWork> work(
      const std::shared_ptr<const PlacedNetwork>& placed, int micro_batch,
      DispatcherId dispatcher) const;
  [[nodiscard]] std::shared_ptr<const LocalMemory> memory(
      const std::shared_ptr<const PlacedBlocks>& placed, const PlanDegrees& plan) const;
  [[nodiscard]] const std::vector<BlockWaits>& waits(const PlacedNetwork& placed, Piece piece,
                                                     DispatcherId dispatcher) const;
  /// The chords of a piece of a micro-batch.
  [[nodiscard]] WaitChord wait_chord(const PlacedNetwork& placed, Piece piece,
                                     DispatcherId dispatcher) const;
  /// Shares that run again, by block, of modules that a plan names; 0: of the framework's policy.
  [[nodiscard]] const std::vector<RepeatedShares>& repeated(std::uint8_t modules) const;
  void find_tried();
  void make_module_sets(const PlacedNetwork& placed) const;
  [[nodiscard]] PassForm pass_form(const PlanDegrees& plan) const;
  [[nodiscard]] std::shared_ptr<ClassProfile> make(std::shared_ptr<const ShardedStates> states,
                                                   const ProfileKey& key,
                                                   const PlanDegrees& plan) const;
  void set_times(const ProfileKey& key, ClassProfile& profile) const;
  void set_memory(std::shared_ptr<const LocalMemory> memory, const PlanDegrees& plan,
                  ClassProfile& profile) const;
  void take_turns(const PlacedBlock& placed, int pieces, BlockMemory& memory) const;
  [[nodiscard]] BlockParts parts(const ClassProfile& profile, std::size_t block,
                                 const BlockWork& work, const KeptBlock& kept) const;
  [[nodiscard]] BlockParts parts(const ClassProfile& profile, std::size_t block) const {
    return parts(profile, block, profile.work->blocks[block], profile.states->blocks[block]);
  }
  /// Fields of a plan that its blocks depend on, once they are placed.
  struct LocalForm {
    int micro_batch;
    std::uint8_t modules = 0;
    HostBits on_host = 0;
  };
  template <typename Visit>
  void for_each_local_block(const PlacedBlocks& placed, LocalForm form, Visit visit) const;

  [[nodiscard]] bool leaves_node(const PlanDegrees& plan) const;
  /// The profile of the layers that are kept beside recomputed ones.
  [[nodiscard]] std::shared_ptr<const ClassProfile> kept(
      const PlanDegrees& plan, const DeviceMesh& mesh,
      const std::shared_ptr<const Placements>& placements) const;

  struct HashStates {
    std::size_t operator()(const StatesKey& key) const noexcept { return key.hash(); }
  };
  /// A number of its own for all placements that cut everything alike.
  [[nodiscard]] std::uint32_t number(const StatesKey& key) const;
  /// A number of its own for everything that plans say of single operators; 0: nothing.
  [[nodiscard]] std::uint32_t number(const std::shared_ptr<const Placements>& placements) const;

  Problem problem_;
  PricingContext context_;
  ConcurrencyRates rates_;
  bool splits_backward_;
  bool joins_;  ///< some order may join forwards and backwards
  std::vector<DispatcherId> tried_;
  NetworkIndex index_;
  /// By modules; made when they are asked for.
  mutable std::array<std::atomic<const std::vector<RepeatedShares>*>, kFewestModules> repeated_{};
  mutable std::vector<std::unique_ptr<const std::vector<RepeatedShares>>> kept_shares_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<StatesKey, std::uint32_t, HashStates> numbers_;
  mutable std::vector<std::shared_ptr<const Placements>> numbered_;  ///< by number - 1
  // Parts that follow from the sizes of groups, wherever their ranks lie.
  SharedCache<StatesKey, PlacedBlocks, 64> blocks_;
  SharedCache<KernelKey, LocalKernels, 512> kernels_;
  SharedCache<ChoiceKey, ModuleChoices, 256> choices_;
  SharedCache<StatesKey, PlacedNetwork, 64> placed_;
  SharedCache<StatesKey, ShardedStates, 128> states_;
  SharedCache<LocalKey, LocalWork, 128> work_;
  SharedCache<LocalKey, LocalMemory, 1024> memory_;
  /// Sets of modules, and by block which parts come back under which; made when it is asked for.
  mutable std::vector<std::uint8_t> module_sets_;
  mutable std::vector<std::vector<ModuleSets>> returned_;
  /// By set and block: operators that run again, and their shares.
  struct SharedOperator {
    std::size_t index;
    double share;
  };
  mutable std::vector<std::vector<std::vector<SharedOperator>>> set_shares_;
  mutable Once sets_made_;
  SharedCache<TimesKey, PassTimes, 256> times_;
  SharedCache<ProfileKey, ClassProfile, 512> profiles_;
};

}  // namespace plansearch
