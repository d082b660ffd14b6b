// SPDX-License-Identifier: Apache-2.0
// How much of the time that a job runs is training: failures, checkpoints, restarts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plansearch/problem.hpp"
#include "plansearch/quantity.hpp"

namespace plansearch {

/// Interruptions of a published job or cluster.
struct ReliabilityRecord {
  std::string name;
  std::string machine;             ///< the profile of where that was; empty: none
  double gpu_time_s = 0.0;         ///< accelerators times the time they were watched
  double interruptions = 0.0;      ///< in that time
  std::optional<Seconds> restart;  ///< as below, where it was published
  std::string source;

  [[nodiscard]] Seconds gpu_mtbf() const { return Seconds(gpu_time_s / interruptions); }
};

/// How often one accelerator interrupts a job, and what that costs.
struct Reliability {
  Seconds gpu_mtbf;     ///< between interruptions that one accelerator (and its share of
                        ///< host, network and software) causes
  double spread = 0.0;  ///< of its logarithm, as a standard deviation
  Seconds restart;      ///< from an interruption to the first step, reading apart
  std::optional<Seconds> interval;  ///< of training between checkpoints; absent: the best one
  Seconds repair;                   ///< until a node that failed is back
  Bandwidth storage_per_node;       ///< to and from shared storage, of every node at once
  Bandwidth storage_of_site{1e30};  ///< of all nodes together
  std::vector<ReliabilityRecord> records;  ///< its evidence
};

/// The median of the records, and the spread among them. At least one.
[[nodiscard]] Reliability with_rate_of(std::vector<ReliabilityRecord> records, Reliability rest);

/// Reliability of one machine: rate and restart of its own records where it has any, the spread of
/// all.
[[nodiscard]] Reliability reliability_on(const std::string& machine, const Reliability& published);

struct Goodput {
  Reliability rests_on;  ///< on the machine of the job
  Seconds mtbf;          ///< of the job
  Bytes checkpoint;      ///< of all trained parameters and their states
  Seconds write;         ///< of one, in which no step runs
  Seconds interval;      ///< of training between two
  double share = 1.0;    ///< of the time of the job in which it trains for good
  double p10 = 1.0;      ///< the same with interruptions as often as among a tenth of records
  double p90 = 1.0;
  int spare_nodes = 0;  ///< that are enough 95 % of the time
};

/// Parameters, their master copies and moments, once.
[[nodiscard]] Bytes checkpoint_bytes(const Problem& problem);

/// The interval between checkpoints that loses least. `write` and `mtbf` above zero.
[[nodiscard]] Seconds checkpoint_interval(Seconds write, Seconds mtbf);

/// The time that a job takes over the time that it trains: with checkpoints every `interval` of
/// training, each `write` long, and `restart` after every interruption.
[[nodiscard]] double elapsed_over_useful(Seconds interval, Seconds write, Seconds restart,
                                         Seconds mtbf);

[[nodiscard]] Goodput goodput_of(const Problem& problem, const Reliability& published);

}  // namespace plansearch
