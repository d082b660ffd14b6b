// SPDX-License-Identifier: Apache-2.0
// The row of an exporter: what its target can express, the keys that say it, and how it is started.
// All of it is data; `export_plan` is the one function that reads it. An exporter is its file, its
// line in targets.cpp and its test.
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
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
/// it (targets.cpp), else its neutral value only.
struct Accepts {
  Setting setting = Setting::FirstDegree;
  std::vector<std::string> values{};  ///< empty: any
  By by = By::Key;
  std::string silent{};  ///< the value that no key needs to say; default: the neutral one
};

/// One key of the configuration. Keys that say no setting are what the target asks for beside a
/// plan (a learning rate); their values are placeholders.
struct Key {
  std::string name;           ///< a flag, or a path such as "zero_optimization.stage"
  std::vector<Setting> says;  ///< nothing: a placeholder
  std::function<Value(const ExportRequest&)> value{};
  std::function<void(Reading&, const Value&)> read{};  ///< absent: the key is not known
  bool is_path = false;                                ///< of which the last part alone is read
};

/// Hydra's "+key=value" adds a key that its own file lacks.
[[nodiscard]] std::string_view without_plus(std::string_view name);

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
/// A script of Python that makes Alpa's parallel method.
[[nodiscard]] std::string write_alpa(const std::vector<std::string>& header,
                                     const Entries& entries);
/// The one value, without its key.
[[nodiscard]] std::string write_order(const std::vector<std::string>& header,
                                      const Entries& entries);

/// A file of the export, or the array of arguments (`array`) of its shell script.
struct Document {
  std::vector<Key> keys;
  Writer write = nullptr;  ///< absent: a shell array
  std::string array{};     ///< "MEGATRON_ARGS"
  std::string file{};      ///< "ds_config.json"; the shell variable PLAN_CONFIG holds its path
};

/// A degree in the rows of a table.
[[nodiscard]] constexpr Setting s(Degree degree) {
  return setting_of(degree);
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

/// A text as a value of Hydra's overrides, which have quotes of their own.
[[nodiscard]] Value hydra_text(const std::string& text);

/// Keys that say where checkpoints lie, and how often one is written; nothing where none are asked
/// for.
[[nodiscard]] Value checkpoint_folder(const ExportRequest& request);
[[nodiscard]] Value checkpoint_steps(const ExportRequest& request);
/// The name on the hub where the user typed one, else that of the network.
[[nodiscard]] Value network_name(const ExportRequest& request);
/// Steps of the tokens to train on; where none are named, those of a trial.
[[nodiscard]] Value training_steps(const ExportRequest& request);

template <typename Row>
[[nodiscard]] std::vector<Row> joined(std::initializer_list<std::vector<Row>> parts) {
  std::vector<Row> all;
  for (const std::vector<Row>& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// An environment variable; absent: not touched; empty: must not be set.
struct Variable {
  std::string name;
  std::function<std::optional<std::string>(const ExportRequest&)> value;
};

/// A part that a network has and the target's own model lacks.
struct Trait {
  std::string_view words;
  bool (*has)(const ModelDescription&);
};

/// Settings that the target runs one by one and not together.
struct Conflict {
  std::string words;  ///< "context parallelism with a pipeline"
  std::function<bool(const ExportRequest&)> has;
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
  std::string script;     ///< "pretrain_gpt.py"; "-m torchtitan.train"
  std::string arguments;  ///< shell words behind the script; the user's are in TRAIN_ARGS
  std::vector<Variable> environment{};
  std::function<std::string(const ExportRequest&)> program{};  ///< in place of `script`
  /// Arguments for a first run on artificial data, as default of TRAIN_ARGS.
  std::function<std::vector<std::string>(const ExportRequest&)> trial{};
};

struct Exporter {
  std::string name{};                  ///< of its file, or from its line in targets.cpp
  std::vector<std::string> aliases{};  ///< names of programs that take its files
  std::string title;
  std::string checked;    ///< the version its keys were checked against
  std::string framework;  ///< file whose rules its plans obey; empty: none
  std::vector<Accepts> accepts;
  std::vector<Document> documents;  ///< files first
  Launch launch;  ///< from a function: g++ 12 frees a nested list twice when a later member throws
  std::vector<Trait> lacks{};
  std::vector<Conflict> conflicts{};
  bool freezes_towers = false;  ///< of images, unless it is told to train them
  /// Writes what every rank of the priced step does in place of a configuration: no setting needs a
  /// key.
  bool traces = false;
  DegreeSet by_stage{};  ///< degrees of which every stage may have its own value
  /// Notes for the user, beside the settings of the script.
  std::function<std::vector<std::string>(const ExportRequest&)> notes{};
  /// Sets what the target does where its configuration says nothing; absent: it is not read.
  std::function<void(Reading&)> start{};
  /// Settles what several keys say together, once all are read. Throws Unsettled.
  std::function<void(Reading&)> settle{};
};

/// The targets of frameworks/export. Each is read when it is asked for; InputError for what is wrong
/// in its file.
class Targets {
 public:
  explicit Targets(const std::filesystem::path& data_directory)
      : folder_(data_directory / "frameworks" / "export") {}

  /// No file is read for them.
  [[nodiscard]] std::vector<std::string> names() const;
  /// Those whose files are read too; a file that ships with no release is known once it is read.
  [[nodiscard]] std::vector<std::string> readable_names() const;
  /// Whether a key of any target is called so.
  [[nodiscard]] bool has_key(std::string_view name) const;
  /// Null where there is none.
  [[nodiscard]] const Exporter* find(std::string_view name) const;
  /// The same, also by a name of a program that takes its files.
  [[nodiscard]] const Exporter* called(std::string_view name) const;
  /// Every one, in the order of the names.
  [[nodiscard]] std::vector<const Exporter*> all() const;

 private:
  std::filesystem::path folder_;
  mutable std::map<std::string, Exporter, std::less<>> made_;
};

/// The target of a file: its name is the file's.
[[nodiscard]] Exporter read_target(const std::filesystem::path& file);

/// The line of a setting; nothing where only the neutral value will do.
[[nodiscard]] const Accepts* find_accepts(const Exporter& exporter, Setting setting);

}  // namespace plansearch::exporters
