// SPDX-License-Identifier: Apache-2.0
#include "fuzz/targets.hpp"
#include "answer/diagnose.hpp"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "evidence/validate/kernel_validation.hpp"
#include "evidence/validate/run_prediction.hpp"
#include "evidence/validate/run_record.hpp"
#include "exchange/launch/read_configuration.hpp"
#include "exchange/networks/import_reader.hpp"
#include "exchange/networks/imported_graph.hpp"
#include "io/document/document.hpp"
#include "io/framework/framework_reader.hpp"
#include "io/hardware/profile_reader.hpp"
#include "io/logs/training_log.hpp"
#include "io/model/model_reader.hpp"
#include "io/model/model_writer.hpp"
#include "io/plan/plan_document.hpp"
#include "io/plan/schedule_csv.hpp"
#include "io/tables/csv.hpp"
#include "measure/fit/fit_tables.hpp"
#include "measure/fit/nccl_log.hpp"
#include "measure/sample_file.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"
#include "question/framework_flags.hpp"
#include "question/resolve_plan.hpp"
#include "report/schedule_report.hpp"

namespace plansearch::fuzz {
namespace {

namespace fs = std::filesystem;
using io::Document;
using io::Syntax;

/// A file of this process for readers that open what they read.
class Scratch {
 public:
  Scratch() {
    std::string pattern = (fs::temp_directory_path() / "plansearch-fuzz-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) std::abort();
    directory_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  fs::path write(const char* name, std::string_view text) const {
    const fs::path file = directory_ / name;
    std::ofstream(file, std::ios::binary) << text;
    return file;
  }

 private:
  fs::path directory_;
};

fs::path write_file(const char* name, std::string_view text) {
  static const Scratch scratch;
  return scratch.write(name, text);
}

/// What a target needs beside its input. A file that cannot be read here is no input's fault: it
/// must not pass for a refusal of every input.
template <typename Load>
auto set_up(Load load) {
  try {
    return load();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "a fuzz target cannot be set up: %s\n", error.what());
    std::abort();
  }
}

std::vector<fs::path> shipped(const char* folder) {
  return {fs::path(PLANSEARCH_SOURCE_DIR) / folder};
}

void read_tree(std::string_view text, Syntax syntax) {
  const io::Node root = Document::parse(text, "fuzz", syntax).root();
  if (root.is_map()) static_cast<void>(root.entries());
  if (root.is_list()) static_cast<void>(root.items());
}

void read_profile(std::string_view text) {
  static_cast<void>(
      io::load_cluster(write_file("profile.yaml", text).string(), shipped("hardware_profiles")));
}

void read_framework(std::string_view text) {
  static_cast<void>(
      io::load_framework(write_file("framework.yaml", text).string(), shipped("frameworks")));
}

void read_model(std::string_view text, Syntax syntax) {
  static_cast<void>(io::read_model(Document::parse(text, "fuzz", syntax), "fuzz"));
}

/// What reads as a network can be written, and reads as the same network.
void read_graph(std::string_view text) {
  const auto model = io::read_model(Document::parse(text, "fuzz", Syntax::Yaml), "fuzz").model;
  if (!model.graph) return;
  const std::string written = io::write_graph(model, *model.graph);
  const auto again = io::read_model(Document::parse(written, "again", Syntax::Yaml), "again").model;
  if (!(*again.graph == *model.graph)) std::abort();
}

const io::ImportedRows& imported_rows() {
  static const auto kRows =
      set_up([] { return io::read_rows(shipped("models/families").front()); });
  return kRows;
}

/// An archive, or its JSON by itself: checksums hide what is inside an archive from the fuzzer.
void read_exported_program(std::string_view text) {
  const fs::path families = shipped("models/families").front();
  if (text.starts_with("PK")) {
    static_cast<void>(io::read_model(write_file("net.pt2", text), families));
    return;
  }
  const io::ImportedGraph graph = io::parse_exported_program(text, "fuzz.pt2", "model.json");
  static_cast<void>(io::read_model(io::graph_document(graph, imported_rows()), "fuzz"));
}

void read_onnx(std::string_view text) {
  const io::ImportedGraph graph = io::parse_onnx(text, "fuzz.onnx");
  static_cast<void>(io::read_model(io::graph_document(graph, imported_rows()), "fuzz"));
}

/// The first line is what follows the name of the file: "#2".
void read_reference(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view content = text.substr(std::min(end + 1, text.size()));
  const std::string name = write_file("result.json", content).string();
  static_cast<void>(complete_from_plan({}, name + std::string(text.substr(0, end))));
}

void read_run_table(std::string_view text) {
  static const ArchitectureTable architectures{
      .default_vocab = 32000, .memory_figures = {}, .entries = {}};
  static const Framework megatron =
      set_up([] { return io::load_framework("megatron", shipped("frameworks")); });
  for (const RunRecord& run : read_runs(io::CsvTable::parse(text, "fuzz.csv"))) {
    if (run.unknown.empty()) static_cast<void>(make_case(run, architectures, megatron));
  }
}

void read_kernel_table(std::string_view text) {
  static const Cluster machine =
      set_up([] { return io::load_cluster("dgx-h100", shipped("hardware_profiles")); });
  const io::CsvTable table = io::CsvTable::parse(text, "fuzz.csv");
  const TableKind kind = recognise_table(table);
  if (kind == TableKind::Runs) return;
  const KernelProfiles profiles{[](std::string_view) { return machine.accelerator; },
                                [](std::string_view) { return machine; },
                                [] { return std::vector<Cluster>{machine}; }};
  static_cast<void>(render_kernels(report_kernels(kind, predict_kernels(table, kind, profiles), {}),
                                   Format::Json));
}

/// Whatever is read makes tables.
void read_samples(std::string_view text) {
  static_cast<void>(io::is_sample_file(text));
  static_cast<void>(tables_of(io::parse_samples(text, "samples.jsonl"), "machine"));
}

void read_nccl_log(std::string_view text) {
  static_cast<void>(io::is_nccl_log(text));
  static_cast<void>(io::parse_nccl_log(text, "all_reduce.txt"));
}

void read_training_log(std::string_view text) {
  static const io::LogFormats formats = log_formats(shipped_data());
  const io::TrainingLog log = io::parse_training_log(text, "train.log", formats, {8, 64, 4096});
  static_cast<void>(step_times(steady_steps(log.times).steps));
}

void read_quantity(std::string_view text) {
  static_cast<void>(parse_quantity<Seconds>(text));
  static_cast<void>(parse_quantity<Bytes>(text));
  static_cast<void>(parse_quantity<Bandwidth>(text));
  static_cast<void>(parse_quantity<FlopRate>(text));
  static_cast<void>(parse_quantity<Watts>(text));
  static_cast<void>(parse_quantity<UsdPerHour>(text));
  if (const auto size = parse_quantity<Bytes>(text)) static_cast<void>(to_text(*size));
  if (const auto time = parse_quantity<Seconds>(text)) static_cast<void>(to_text(*time));
}

void read_lists(std::string_view text) {
  static const Framework megatron =
      set_up([] { return io::load_framework("megatron", shipped("frameworks")); });
  for (const auto apply : {apply_rank_order, apply_overlap}) {
    Framework framework = megatron;
    try {
      apply(framework, text);
    } catch (const InputError&) {
    }
  }
  for (const DegreeRow& row : degree_table()) {
    static_cast<void>(parse_value(row.degree, std::string(text)));
  }
}

/// "NAME STAGES MICRO-BATCHES CHUNKS TIMES TRANSFER", small enough to be run.
void read_schedule(std::string_view text) {
  std::array<std::string, 6> words;
  for (std::string& word : words) {
    const std::size_t end = std::min(text.find(' '), text.size());
    word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  const auto small = [](const std::string& word) {
    return std::max(1, std::atoi(word.c_str()) % 32);
  };
  PipelineShape shape;
  shape.schedule = find_schedule(words[0]).value_or(kDefaultSchedule);
  shape.stages = small(words[1]);
  shape.micro_batches = small(words[2]);
  shape.chunks = small(words[3]);
  const ScheduleTimes times = read_times(words[4], words[5].empty() ? "0" : words[5], shape.chunks);
  if (obstacle_of(shape)) return;
  static_cast<void>(to_text(report_schedule(shape, times), Format::Json));
}

void read_schedule_file(std::string_view text) {
  static_cast<void>(io::to_schedule_csv(io::parse_schedule(text, "fuzz.csv")));
}

/// The first line is the name of the file, which says how it is read.
void read_launch_file(std::string_view text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const importers::ConfigurationFile file{std::string(text.substr(end)),
                                          std::string(text.substr(0, end))};
  importers::Typed typed;
  typed.request.gpus = 8;
  static const exporters::Targets kTargets(shipped_data().directory());
  static_cast<void>(
      importers::read_configuration(kTargets, importers::find_keys(kTargets, {file}, {}), typed));
}

constexpr std::array kTargets{
    Target{"yaml", [](std::string_view text) { read_tree(text, Syntax::Yaml); }},
    Target{"json", [](std::string_view text) { read_tree(text, Syntax::Json); }},
    Target{"profile", read_profile},
    Target{"nccl_log", read_nccl_log},
    Target{"training_log", read_training_log},
    Target{"samples", read_samples},
    Target{"graph", read_graph},
    Target{"pt2", read_exported_program},
    Target{"onnx", read_onnx},
    Target{"model", [](std::string_view text) { read_model(text, Syntax::Yaml); }},
    Target{"hf_config", [](std::string_view text) { read_model(text, Syntax::Json); }},
    Target{"framework", read_framework},
    Target{"plan",
           [](std::string_view text) {
             static_cast<void>(
                 io::read_plan_document(Document::parse(text, "fuzz", Syntax::Yaml).root()));
           }},
    Target{"reference", read_reference},
    Target{"runs", read_run_table},
    Target{"kernels", read_kernel_table},
    Target{"quantity", read_quantity},
    Target{"lists", read_lists},
    Target{"schedule", read_schedule},
    Target{"schedule_csv", read_schedule_file},
    Target{"launch_file", read_launch_file},
};

}  // namespace

std::span<const Target> targets() {
  return kTargets;
}

void attempt(const Target& target, std::string_view text) {
  try {
    target.read(text);
  } catch (const InputError& error) {
    if (*error.what() != '\0') return;
    std::fprintf(stderr, "%s: an error without a message\n", target.name.data());
    std::abort();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", target.name.data(), error.what());
    std::abort();
  }
}

}  // namespace plansearch::fuzz
