// SPDX-License-Identifier: Apache-2.0
// A configuration while it is read: what the keys of an exporter say, the other way round. It
// starts as what the target does where nothing is said, and every key that stands in the file
// changes it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/export_request.hpp"

namespace plansearch::io {
struct RawValue;
}

namespace plansearch::exporters {

/// Objects keep their order; null: the key is left out.
using Value = nlohmann::ordered_json;

/// A value that its key does not take.
struct WrongValue : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// The file contradicts itself, or lacks something; names the keys.
struct Unsettled : std::runtime_error {
  Unsettled(const std::string& what, std::string remedy_words)
      : std::runtime_error(what), remedy(std::move(remedy_words)) {}
  std::string remedy;
};

inline constexpr std::int64_t kMostWhole = 1'000'000'000'000;

struct Reading {
  PlanDegrees degrees{};
  std::set<Degree> open{};  ///< neither said by a key nor decided by the target
  ProblemRequest asked{};   ///< batch, sequence, formats, ...
  ModelDescription model{};
  bool has_model = false;  ///< a key describes the network
  /// Parameters of a network that is only named, beside the sizes in `model`.
  std::optional<std::int64_t> parameters{};
  std::string named{};  ///< the network as its own hub or folder calls it
  int node_gpus = 0;    ///< accelerators of a node, where the machine or the launcher is known
  std::array<std::optional<bool>, kOverlapCount> hides{};  ///< by kind; absent: as the framework
  std::vector<StageContent> stages{};                      ///< virtual ones, where keys list them
  std::map<std::string, Value, std::less<>> said{};        ///< by key, everything that was read
  std::map<std::string, Value, std::less<>> facts{};       ///< by fact, in its own words
  std::vector<std::string> notes{};
  std::string program{};  ///< that a launch script starts

  [[nodiscard]] bool says(std::string_view key) const { return said.find(key) != said.end(); }
  /// The value of a key; null where it is not in the file.
  [[nodiscard]] const Value& value(std::string_view key) const;
  std::set<std::string, std::less<>> left_open{};  ///< facts whose keys leave them to others
  [[nodiscard]] bool knows(std::string_view fact) const { return facts.find(fact) != facts.end(); }
  /// The value of a fact; null where no key says it.
  [[nodiscard]] const Value& fact(std::string_view name) const;
  [[nodiscard]] bool on(std::string_view name) const;
  // The word or the number of a fact, or of a key, that is said; else `otherwise`.
  [[nodiscard]] std::string word(std::string_view name, std::string_view otherwise = {}) const;
  [[nodiscard]] std::string key_word(std::string_view key, std::string_view otherwise = {}) const;
  [[nodiscard]] std::int64_t number(std::string_view name, std::int64_t otherwise,
                                    std::int64_t low = 1, std::int64_t high = kMostWhole) const;
  [[nodiscard]] std::int64_t key_number(std::string_view key, std::int64_t otherwise,
                                        std::int64_t low = 1, std::int64_t high = kMostWhole) const;
  /// The number of a fact as `count_in` reads it.
  [[nodiscard]] int count(std::string_view name, int otherwise) const;
  /// One more kind of tensor in memory of the host.
  void offload(const std::string& what) {
    degrees.on_host = static_cast<HostBits>(degrees.on_host | find_host_tensors(what).value_or(0));
  }
  [[nodiscard]] int gpus() const { return asked.gpus.value_or(0); }
  void hide(Overlap overlap, bool on = true) { hides.at(static_cast<std::size_t>(overlap)) = on; }
  [[nodiscard]] bool hidden(Overlap overlap) const {
    return hides.at(static_cast<std::size_t>(overlap)).value_or(false);
  }
  MoeDescription& experts();  ///< there from now on
  LatentAttention& latent();  ///< there from now on
};

// A value read as its type, whether a shell word or a typed one. WrongValue for anything else.
[[nodiscard]] std::int64_t whole_number(const Value& value, std::int64_t low = 1,
                                        std::int64_t high = kMostWhole);
[[nodiscard]] int count_in(const Value& value, int low = 1);
[[nodiscard]] double real_number(const Value& value);
/// A flag alone is on.
[[nodiscard]] bool is_on(const Value& value);
[[nodiscard]] std::string text_in(const Value& value);
/// The words of a list, or the one that stands alone.
[[nodiscard]] std::vector<std::string> texts_in(const Value& value);
/// A word that is not quoted: a number, true, false, nothing, or itself.
[[nodiscard]] Value plain_value(std::string_view text);
/// A value of a YAML or JSON file.
[[nodiscard]] Value value_of(const io::RawValue& raw);
/// "auto", "none" and "null" of configurations that leave a value to others.
[[nodiscard]] bool is_left_open(const Value& value);

/// The data degree that world size and the other degrees leave, checked; the world size where the
/// data degree is known. Then the batch: micro-batches of a step, or the batch from them. Unsettled
/// for numbers that do not divide.
void settle_ranks(Reading& reading);
void settle_batch(Reading& reading);
/// The kinds of communication that the file decides, as --overlap names them.
void settle_overlap(Reading& reading);

}  // namespace plansearch::exporters
