// SPDX-License-Identifier: Apache-2.0
// The row of an exporter: what its target can express, the keys that say it, and how it is started.
// All of it is data; `export_plan` is the one function that reads it. An exporter is its file, its
// line in table.cpp and its test.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "exporters/export_request.hpp"
#include "exporters/reading.hpp"

namespace plansearch::exporters {

enum class By : std::uint8_t {
  Key,     ///< a key of the exported configuration says it
  Target,  ///< the target does this and nothing else
  Script,  ///< the training script says it; the export tells the user to
};

/// Values of a setting that the target can run. A setting without a line has any where a key says
/// it (table.cpp), else its neutral value only.
struct Accepts {
  Setting setting = Setting::FirstDegree;
  std::vector<std::string_view> values{};  ///< empty: any
  By by = By::Key;
  std::string_view silent{};  ///< the value that no key needs to say; default: the neutral one
};

/// What a key says of a request; null: not said.
using Write = Value (*)(const ExportRequest&);
/// The other way round: what a value in a file changes.
using Read = void (*)(Reading&, const Value&);

/// Both, where one of them follows from the other.
struct Ways {
  Write write = nullptr;  ///< null: never said
  Read read = nullptr;    ///< null: not read
  constexpr Ways() = default;
  constexpr Ways(Write says, Read reads) : write(says), read(reads) {}
  template <typename Function>
  requires std::convertible_to<Function, Write>
  constexpr Ways(Function function) : write(function) {}  // NOLINT: a function alone is said only

  [[nodiscard]] Value operator()(const ExportRequest& request) const {
    return write == nullptr ? Value() : write(request);
  }
};

/// One key of the configuration. Keys that say no setting are what the target asks for beside a
/// plan (a learning rate); their values are placeholders.
struct Key {
  std::string_view name;      ///< a flag, or a path such as "zero_optimization.stage"
  std::vector<Setting> says;  ///< nothing: a placeholder
  Ways value;
  Read own_read = nullptr;  ///< the inverse, where `value` does not bring it
  bool is_path = false;     ///< of which the last part alone is read

  [[nodiscard]] Read read() const { return own_read != nullptr ? own_read : value.read; }
};

/// A key of files that people have and no export writes: an older or another name, or one that an
/// export has no use for.
[[nodiscard]] inline Key only_read(std::string_view name, Read read) {
  return {name, {}, {}, read};
}
/// Read together with others, when the whole file is known (`settle`).
inline void together(Reading& /*reading*/, const Value& /*value*/) {}

/// How a list of keys is written.
struct Entry {
  std::string name;
  Value value;
};
using Entries = std::vector<Entry>;
using Writer = std::string (*)(const std::vector<std::string>& header, const Entries& entries);
[[nodiscard]] std::string write_json(const std::vector<std::string>& header,
                                     const Entries& entries);
[[nodiscard]] std::string write_yaml(const std::vector<std::string>& header,
                                     const Entries& entries);
[[nodiscard]] std::string write_toml(const std::vector<std::string>& header,
                                     const Entries& entries);

/// A file of the export, or the array of arguments (`array`) of its shell script.
struct Document {
  std::vector<Key> keys;
  Writer write = nullptr;    ///< absent: a shell array
  std::string_view array{};  ///< "MEGATRON_ARGS"
  std::string_view file{};   ///< "ds_config.json"; the shell variable PLAN_CONFIG holds its path
};

/// A degree in the rows of a table.
[[nodiscard]] constexpr Setting s(Degree degree) {
  return setting_of(degree);
}

/// A flag without a value.
[[nodiscard]] inline Value flag(bool set) {
  return set ? Value(true) : Value();
}

// Values of keys that say one field, or what one function makes of the request.
template <auto Constant>
[[nodiscard]] Value constant(const ExportRequest& /*request*/) {
  return Value(Constant);
}
template <auto Function>
[[nodiscard]] Value value_from(const ExportRequest& request) {
  return Value(std::invoke(Function, request));
}
template <auto Function>
[[nodiscard]] Value flag_of(const ExportRequest& request) {
  return flag(std::invoke(Function, request));
}

/// A value as the field it is read into.
template <typename Field>
void read_into(Field& field, const Value& value) {
  if constexpr (std::is_same_v<Field, bool>) {
    field = is_on(value);
  } else if constexpr (std::is_floating_point_v<Field>) {
    field = real_number(value);
  } else if constexpr (std::is_integral_v<Field>) {
    field = static_cast<Field>(whole_number(value, 0, 1'000'000'000));
  } else {
    typename Field::value_type inner{};
    read_into(inner, value);
    field = inner;
  }
}

// Fields, both ways.
template <auto Field>
inline constexpr Ways of_problem{+[](const ExportRequest& h) { return Value(h.problem.*Field); }};
template <auto Field>
inline constexpr Ways of_model{+[](const ExportRequest& h) { return Value(h.model().*Field); },
                               +[](Reading& r, const Value& value) {
                                 r.has_model = true;
                                 read_into(r.model.*Field, value);
                               }};
template <auto Field>
inline constexpr Ways of_attention{
    +[](const ExportRequest& h) { return Value(h.model().attention.*Field); },
    +[](Reading& r, const Value& value) { read_into(r.model.attention.*Field, value); }};
template <auto Field>
inline constexpr Ways of_latent{
    +[](const ExportRequest& h) {
      const auto& latent = h.model().attention.latent;
      return latent ? Value((*latent).*Field) : Value();
    },
    +[](Reading& r, const Value& value) { read_into(r.latent().*Field, value); }};
template <auto Field>
inline constexpr Ways of_experts{
    +[](const ExportRequest& h) {
      const auto& moe = h.model().moe;
      return moe ? Value((*moe).*Field) : Value();
    },
    +[](Reading& r, const Value& value) { read_into(r.experts().*Field, value); }};
template <auto Field>
void read_degree(Reading& r, const Value& value) {
  r.degrees.*Field = count_in(value);
}
template <auto Field>
inline constexpr Ways degree{+[](const ExportRequest& h) { return Value(h.degrees.*Field); },
                             read_degree<Field>};
/// Of networks with experts.
template <auto Field>
inline constexpr Ways degree_of_experts{
    +[](const ExportRequest& h) { return h.model().moe ? Value(h.degrees.*Field) : Value(); },
    read_degree<Field>};
/// The batch and the length of a sequence.
inline constexpr Ways kBatch{
    +[](const ExportRequest& h) { return Value(h.problem.global_batch); },
    +[](Reading& r, const Value& value) { r.asked.batch = whole_number(value, 1, 1'000'000'000); }};
inline constexpr Ways kSequence{
    +[](const ExportRequest& h) { return Value(h.problem.seq_len); },
    +[](Reading& r, const Value& value) { r.asked.seq_len = whole_number(value, 1, 100'000'000); }};

/// A text as a value of Hydra's overrides, which have quotes of their own.
[[nodiscard]] Value hydra_text(const std::string& text);

/// Keys that say where checkpoints lie, and how often one is written; nothing where none are asked
/// for.
[[nodiscard]] Value checkpoint_folder(const ExportRequest& request);
[[nodiscard]] Value hydra_checkpoint_folder(const ExportRequest& request);
[[nodiscard]] Value checkpoint_steps(const ExportRequest& request);
/// `word` where checkpoints are asked for.
template <auto Word>
[[nodiscard]] Value with_checkpoints(const ExportRequest& request) {
  return request.job.checkpoints.empty() ? Value() : Value(Word);
}

template <typename Row>
[[nodiscard]] std::vector<Row> joined(std::initializer_list<std::vector<Row>> parts) {
  std::vector<Row> all;
  for (const std::vector<Row>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// An environment variable; absent: not touched; empty: must not be set.
struct Variable {
  std::string_view name;
  std::optional<std::string> (*value)(const ExportRequest&);
};

/// What a network has and the target's own model lacks.
struct Trait {
  std::string_view words;
  bool (*has)(const ModelDescription&);
};

/// Settings that the target runs one by one and not together.
struct Conflict {
  std::string_view words;  ///< "context parallelism with a pipeline"
  bool (*has)(const ExportRequest&);
};

/// How the program is started on every node.
enum class Starter : std::uint8_t {
  Torchrun,
  Accelerate,
  Jax,  ///< one process a node, which takes its accelerators
  Ray,  ///< a Ray cluster of the nodes, the program on the first
};

struct Launch {
  Starter starter = Starter::Torchrun;
  std::string_view script;     ///< "pretrain_gpt.py"; "-m torchtitan.train"
  std::string_view arguments;  ///< shell words behind the script; the user's are in TRAIN_ARGS
  std::vector<Variable> environment{};
  /// Arguments for a first run on artificial data, as default of TRAIN_ARGS.
  std::vector<std::string> (*trial)(const ExportRequest&) = nullptr;
};

struct Exporter {
  std::string_view name{};  ///< from its line in table.cpp
  std::string_view title;
  std::string_view checked;    ///< the version its keys were checked against
  std::string_view framework;  ///< file whose rules its plans obey; empty: none
  std::vector<Accepts> accepts;
  std::vector<Document> documents;  ///< files first
  Launch launch;  ///< from a function: g++ 12 frees a nested list twice when a later member throws
  std::vector<Trait> lacks{};
  std::vector<Conflict> conflicts{};
  /// Writes what every rank of the priced step does in place of a configuration: no setting needs a
  /// key.
  bool traces = false;
  DegreeSet by_stage{};  ///< degrees of which every stage may have its own value
  /// What the user must add or know, beside the settings of the script.
  std::vector<std::string> (*notes)(const ExportRequest&) = nullptr;
  /// What the target does where its configuration says nothing; absent: it is not read.
  void (*start)(Reading&) = nullptr;
  /// What several keys say together, once all are read. Throws Unsettled.
  void (*settle)(Reading&) = nullptr;
};

/// The names alone, which the command line asks for whatever the command: no exporter is made.
[[nodiscard]] std::vector<std::string> exporter_names();
[[nodiscard]] const std::vector<Exporter>& exporter_table();
[[nodiscard]] const Exporter* find_exporter(std::string_view name);

/// The line of a setting; nothing where only the neutral value will do.
[[nodiscard]] const Accepts* find_accepts(const Exporter& exporter, Setting setting);

}  // namespace plansearch::exporters
