// SPDX-License-Identifier: Apache-2.0
// Kernels and messages of one device as instructions on streams, copy after copy: what is hidden
// behind what, and what concurrent streams cost each other.
#pragma once

#include <cstdint>
#include <vector>

#include "plansearch/concurrency.hpp"
#include "plansearch/fixed_vector.hpp"

namespace plansearch {

/// Instruction `index` of the copy that lies `copies_back` before the own one; in the first copies
/// there is none, and nothing waits.
struct StreamDependency {
  std::uint16_t index = 0;
  std::uint8_t copies_back = 0;
  bool operator==(const StreamDependency&) const = default;
};

/// An instruction runs when its stream has come to it and its dependencies have ended: `latency`
/// seconds that slow no other instruction, then `work` seconds (alone) of its activity.
struct StreamInstruction {
  std::uint8_t stream = 0;
  Activity activity = Activity::Compute;
  double latency = 0.0;
  double work = 0.0;
  FixedVector<StreamDependency, 4> after;
};

/// One copy of a block: instructions in the order in which streams take them up. Stream 0 is the
/// one whose waits are asked for.
struct StreamProgram {
  std::vector<StreamInstruction> instructions;
  int streams = 1;
};

/// When an instruction ran.
struct StreamSlice {
  int copy = 0;
  std::size_t instruction = 0;
  double start = 0.0;
  double end = 0.0;
};

/// Copies run back to back.
struct StreamRun {
  double length = 0.0;  ///< until every stream has ended
  /// By instruction, summed over copies: how long stream 0 waited for it, or how long it ran after
  /// stream 0 had ended, and by how much it slowed stream 0 down.
  std::vector<double> exposed;
};

/// The time of one more copy among its like, and the time of a run of copies besides:
/// T(n) = edges + n * steady.
struct SteadyRun {
  StreamRun steady;
  StreamRun edges;
};

/// Runs programs; keeps its buffers from one to the next.
class StreamSimulator {
 public:
  explicit StreamSimulator(const ConcurrencyRates& rates) : rates_(&rates) {}

  /// `slices`, where asked for, gets every instruction in the order in which they end.
  void run(const StreamProgram& program, int copies, StreamRun& result,
           std::vector<StreamSlice>* slices = nullptr);

  /// From two and three copies, or from one where all are alike.
  void steady(const StreamProgram& program, SteadyRun& result);

 private:
  struct Stream {
    std::size_t next = 0;  ///< into its queue
    int copy = 0;
    bool running = false;
    double latency = 0.0;
    double work = 0.0;
    double start = 0.0;
    std::size_t instruction = 0;
    Activity activity = Activity::Compute;
    double rate = 1.0;  ///< now
    [[nodiscard]] bool moving() const { return running && latency <= 0.0; }
  };

  void load(const StreamProgram& program, int copies);
  bool start_ready(double now);
  [[nodiscard]] const StreamDependency* missing(const StreamInstruction& instruction,
                                                int copy) const;
  double set_rates();
  static double run_alone(Stream& stream);
  void book(double elapsed, StreamRun& result) const;
  void advance(double elapsed, double now, std::vector<StreamSlice>* slices);

  const ConcurrencyRates* rates_;
  const StreamProgram* program_ = nullptr;
  int copies_ = 0;
  std::vector<Stream> streams_;
  std::vector<std::vector<std::size_t>> queues_;  ///< by stream: its instructions
  std::vector<int> ended_;                        ///< by instruction: copies that have ended
};

}  // namespace plansearch
