// SPDX-License-Identifier: Apache-2.0
#include "cli/parse.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <utility>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "cli/command_row.hpp"
#include "cli/commands.hpp"
#include "cli/option_kinds.hpp"
#include "exporters/exporter.hpp"
#include "plansearch/degree_table.hpp"
#include "plansearch/error.hpp"
#include "plansearch/shipped_data.hpp"

namespace plansearch::cli {
namespace {

constexpr const char* kAbout =
    "Which parallel plan to train a large network with, how long a step takes, whether it fits in "
    "memory, and why.\n\nExample: plansearch --hw perlmutter.yaml --model gpt2-xl --gpus 64";
constexpr const char* kSeeHelp = "plansearch --help lists every command and option";

/// Every spelling a word of the command line may have.
std::vector<std::string> known_words(const CLI::App& app) {
  std::vector<std::string> words;
  const auto collect = [&](const CLI::App& from) {
    for (const CLI::Option* option : from.get_options()) {
      for (const std::string& name : option->get_lnames())
        words.push_back(fmt::format("--{}", name));
    }
  };
  collect(app);
  for (const CLI::App* sub : app.get_subcommands({})) {
    words.push_back(sub->get_name());
    collect(*sub);
  }
  return words;
}

/// The program and the command that was named.
std::vector<const CLI::App*> parsed_apps(const CLI::App& app) {
  std::vector<const CLI::App*> apps{&app};
  for (const CLI::App* sub : app.get_subcommands()) apps.push_back(sub);
  return apps;
}

std::size_t count(const CLI::App& app, const std::string& flag) {
  std::size_t times = 0;
  for (const CLI::App* part : parsed_apps(app)) {
    const CLI::Option* option = part->get_option_no_throw(flag);
    if (option != nullptr) times += option->count();
  }
  return times;
}

/// "predict, explain": the commands that take an option.
std::string commands_with(const CLI::App& app, const std::string& option) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->get_option_no_throw(option) != nullptr) names.push_back(sub->get_name());
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

/// "--seq-len" where another program calls it `option` ("--cutoff-len"); empty: no program does.
std::string option_in_place_of(const std::string& option, const std::vector<std::string>& known) {
  constexpr std::array kLengths{"epochs",  "num-train-epochs", "max-steps",
                                "samples", "train-iters",      "train-samples"};
  const std::string name = option.substr(std::min(option.size(), option.find_first_not_of('-')));
  if (contains(kLengths, name)) return "--tokens, sequences of the whole run times --seq-len";
  for (const SettingRow& row : setting_table()) {
    if (contains(words_of(row), name)) return fmt::format("{} {}", flag_of(row), name);
  }
  const exporters::Targets targets(shipped_data().directory());
  for (const exporters::Exporter* target : targets.all()) {
    for (const exporters::Document& document : target->documents) {
      for (const exporters::Key& key : document.keys) {
        const std::string last = canonical_name(key.name.substr(key.name.rfind('.') + 1));
        if (key.says.empty() || (last != name && last != option)) continue;
        const std::string flag = flag_of(exporters::name_of(key.says.front()));
        if (contains(known, flag)) return flag;
      }
    }
  }
  return {};
}

/// Words that people type and that name nothing here, with what to type for them.
constexpr const char* kTuning =
    "plansearch --hw HARDWARE --model MODEL --gpus 1 --task sft|lora|qlora|dpo";
constexpr const char* kBudget = "capacity --budget \"20000 node-hours\", GPU-hours or money";
constexpr const char* kTime = "capacity --deadline 30d is a limit on time";
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kAnswers{
    {{"--days", kTime},
     {"--hours", kTime},
     {"--node-hours", kBudget},
     {"--gpu-hours", kBudget},
     {"--batch-tokens", "--batch counts sequences: tokens of a step over --seq-len"},
     {"--confidence", "capacity says the chance of a limit, and what keeps it surely"},
     {"finetune", kTuning},
     {"fine-tune", kTuning}}};

[[noreturn]] void refuse_extra(const CLI::App& app) {
  const std::vector<std::string> extra = app.remaining(true);
  const std::string word = extra.empty() ? std::string() : extra.front();
  const std::string name = word.substr(0, word.find('='));
  const auto commands = app.get_subcommands();
  const std::string others = commands_with(app, name);
  if (name.starts_with("--") && (app.get_option_no_throw(name) != nullptr || !others.empty())) {
    const std::string own = commands.empty() ? "search" : commands.front()->get_name();
    throw InputError({}, fmt::format("{} takes no {}", own, name),
                     fmt::format("{}plansearch {} --help lists what it takes",
                                 others.empty() ? "" : "taken by " + others + "; ", own));
  }
  const std::vector<std::string> known = known_words(app);
  const bool option = name.starts_with('-');
  const std::string other = option ? option_in_place_of(canonical_name(name), known) : "";
  std::string hint =
      other.empty() ? did_you_mean(name, known) : fmt::format("plansearch calls it {}", other);
  for (const auto& [asked, answer] : kAnswers) {
    if (name == asked) hint = answer;
  }
  if (hint.empty() && !option)
    hint = "HARDWARE MODEL by themselves are --hw HARDWARE --model MODEL";
  throw InputError({}, fmt::format("unknown {} '{}'", option ? "option" : "argument", name),
                   hint.empty() ? kSeeHelp : hint);
}

/// The line of --help about the option that a message "--gpus: ..." begins with.
std::string help_of(const CLI::App& app, const std::string& message) {
  const std::string name = message.substr(0, message.find(':'));
  for (const CLI::App* part : parsed_apps(app)) {
    const CLI::Option* option = part->get_option_no_throw(name);
    if (option == nullptr) continue;
    return fmt::format("{} {}: {}", option->get_name(), option->get_type_name(),
                       option->get_description());
  }
  return kSeeHelp;
}

/// The argument a command cannot do without: what it is and, where there are few, the choices.
[[noreturn]] void refuse_incomplete(const CLI::App& app, const CLI::RequiredError& error) {
  for (const CLI::App* sub : app.get_subcommands()) {
    for (const CLI::Option* option : sub->get_options()) {
      if (!option->get_required() || option->count() > 0) continue;
      const bool argument = option->get_lnames().empty();
      const std::string type = option->get_type_name();
      const bool choices = type.find('|') != std::string::npos;
      throw InputError({},
                       fmt::format("{}: {} is missing", sub->get_name(),
                                   argument ? "its argument" : option->get_name()),
                       fmt::format("{}{}{}", option->get_description(), choices ? ": " : "",
                                   choices ? type : ""));
    }
  }
  throw InputError({}, error.what(), kSeeHelp);
}

/// "--gpus" without its value, or twice.
[[noreturn]] void refuse_count(const CLI::App& app, const CLI::ArgumentMismatch& error) {
  const std::string text = error.what();
  const std::string name = text.substr(0, text.find(':'));
  const bool repeated = text.find("At Most") != std::string::npos;
  throw InputError({},
                   fmt::format("{}: {}", name, repeated ? "given more than once" : "needs a value"),
                   repeated ? "give it once" : help_of(app, text));
}

/// Megatron's tensor degree and the three axes say the same in two ways.
void refuse_two_spellings(const CLI::App& app) {
  const auto given = [&](std::string_view key) { return count(app, flag_of(key)) > 0; };
  const auto axis = [&](Degree degree) { return given(row_of(degree).key); };
  if (!given(kTensorAlias.key)) return;
  if (!axis(Degree::TensorIn) && !axis(Degree::TensorOut) && !axis(Degree::TensorDepth)) return;
  throw InputError({}, "--tp together with --tp-x, --tp-y or --tp-z",
                   "--tp N is --tp-y N; give the axes one by one or their Megatron form, not both");
}

/// Flags that only a search can honour.
void refuse_elsewhere(const CLI::App& app, const Options& options) {
  const auto refuse = [&](const char* flag) {
    if (count(app, flag) == 0) return;
    throw InputError({}, fmt::format("{} belongs to searches", flag),
                     "leave it out, or use plansearch search");
  };
  if (options.format == "markdown" && !options.row->markdown) {
    throw InputError({}, "--format markdown is for answers about plans",
                     "use it with search, compare, predict, explain, capacity, diagnose, show or "
                     "list");
  }
  const std::string_view command = options.row->name;
  if (command == "search") return;
  // The count of the option that stands before every command; some commands have their own.
  for (const char* flag : {"--report", "--trace", "--plot", "--plan", "--constraints"}) {
    if (app.get_option(flag)->count() > 0) refuse(flag);
  }
  if (command == "compare" || command == "capacity") return;
  for (const char* flag : {"--all", "--pareto"}) refuse(flag);
}

/// Before the command and behind it.
void refuse_repeated(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    const std::string name = fmt::format("--{}", option->get_lnames().front());
    if (count(app, name) == option->count()) continue;
    throw InputError({}, fmt::format("{}: given more than once", name), "give it once");
  }
}

/// Options whose value is a file that is written; --plot has a name before it in places.
constexpr std::array<std::string_view, 9> kWritten{
    "--out",         "--all",   "--write-plan", "--write-stages", "--write-primitives",
    "--write-model", "--trace", "--report",     "--plot"};

std::filesystem::path written_path(std::string_view option, const std::string& value) {
  const std::size_t equals = option == "--plot" ? value.find('=') : std::string::npos;
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(
      equals == std::string::npos ? value : value.substr(equals + 1), error);
  return error ? std::filesystem::path(value) : path;
}

/// Two answers in one file would leave one of them, an answer in a file that is read only the answer.
void refuse_shared_files(const CLI::App& app) {
  std::map<std::filesystem::path, std::string> taken;
  std::vector<std::pair<std::string, std::string>> read;
  for (const CLI::App* part : parsed_apps(app)) {
    for (const CLI::Option* option : part->get_options()) {
      const std::string name = option->get_single_name();
      const std::string flag = option->get_lnames().empty() ? name : "--" + name;
      for (const std::string& value : option->results()) {
        if (!contains(kWritten, flag)) {
          read.emplace_back(flag, value.substr(0, value.rfind('#')));
          continue;
        }
        std::error_code error;
        const auto path = written_path(flag, value);
        if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path))
          continue;
        const auto [first, fresh] = taken.emplace(path, flag);
        if (fresh) continue;
        throw InputError({}, fmt::format("{} and {} name one file: {}", first->second, flag, value),
                         "give each a file of its own");
      }
    }
  }
  for (const auto& [flag, value] : read) {
    std::error_code error;
    if (!std::filesystem::is_regular_file(value, error)) continue;
    const auto same = taken.find(written_path({}, value));
    if (same == taken.end()) continue;
    throw InputError(
        {}, fmt::format("{} would be written over what it is made from: {}", same->second, value),
        fmt::format("name another file with {}", same->second));
  }
}

/// "-hw" would be -h and, unseen, -w.
void refuse_one_dash(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool joined = word.size() > 2 && word.starts_with("-h") && word != "-help";
    if (!joined) continue;
    throw InputError({}, fmt::format("unknown option '{}'", word),
                     fmt::format("options have two dashes: -{}", word));
  }
}

/// Words as the arguments of a program.
class Arguments {
 public:
  explicit Arguments(std::vector<std::string> words) : words_(std::move(words)) {
    words_.insert(words_.begin(), "plansearch");
    for (std::string& word : words_) pointers_.push_back(word.data());
  }
  [[nodiscard]] int count() const { return static_cast<int>(pointers_.size()); }
  [[nodiscard]] char** words() { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

/// The kind of file that a name by itself stands for; empty where none ships.
std::string kind_of(const std::string& name) {
  const auto loads = [&](auto member) {
    try {
      static_cast<void>((shipped_data().*member)(name));
      return true;
    } catch (const InputError&) {
      return false;
    }
  };
  if (loads(&ShippedData::cluster)) return "hw";
  if (loads(&ShippedData::model)) return "model";
  return loads(&ShippedData::framework) ? "framework" : "";
}

/// "h100 llama3-8b" as --hw and --model, "help search" as "search --help", "show h100" as "show hw
/// h100".
std::vector<std::string> spelled_out(std::vector<std::string> words, const CLI::App& app) {
  if (words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
    return words;
  }
  if (words.size() == 2 && words.front() == "show" && !words[1].starts_with('-') &&
      !contains(kShown, words[1])) {
    const std::string kind = kind_of(words[1]);
    if (!kind.empty()) words.insert(words.begin() + 1, kind);
    return words;
  }
  std::vector<std::string> commands;
  for (const CLI::App* sub : app.get_subcommands({})) commands.push_back(sub->get_name());
  const auto is_name = [](const std::string& word) { return !word.starts_with('-'); };
  const bool names = words.size() > 1 && is_name(words[0]) && is_name(words[1]);
  if (!names || contains(commands, words[0]) || !did_you_mean(words[0], commands).empty()) {
    return words;
  }
  words.insert(words.begin() + 1, "--model");
  words.insert(words.begin(), "--hw");
  return words;
}

std::variant<Options, Help> parse(std::vector<std::string> words) {
  Arguments arguments(std::move(words));
  return parse_command_line(arguments.count(), arguments.words());
}

}  // namespace

std::variant<Options, Help> parse_command_line(int argc, char** argv) {
  if (argc <= 1) return Help{short_help()};
  refuse_one_dash(argc, argv);
  Options options;
  CLI::App app(kAbout, "plansearch");
  build_command_line(app, options);
  try {
    Arguments arguments(spelled_out({argv + 1, argv + argc}, app));
    app.parse(arguments.count(), arguments.words());
    refuse_repeated(app);
    refuse_two_spellings(app);
    refuse_elsewhere(app, options);
    refuse_shared_files(app);
    const bool one_machine = options.hardware.find(',') == std::string::npos;
    if (one_machine) static_cast<ProblemRequest&>(options) = with_own_size(options);
  } catch (const CLI::CallForHelp&) {
    return Help{app.help()};  // of the command, when one was named
  } catch (const CLI::CallForVersion&) {
    return Help{"plansearch " PLANSEARCH_VERSION "\n"};
  } catch (const CLI::ExtrasError&) {
    refuse_extra(app);
  } catch (const CLI::RequiredError& error) {
    refuse_incomplete(app, error);
  } catch (const CLI::ArgumentMismatch& error) {
    refuse_count(app, error);
  } catch (const CLI::ParseError& error) {
    throw InputError({}, error.what(), help_of(app, error.what()));
  }
  return options;
}

Options parse_words(const std::vector<std::string>& words, Caller& caller) {
  auto parsed = parse(words);
  if (std::holds_alternative<Help>(parsed)) throw InputError({}, "no question was asked");
  Options options = std::get<Options>(std::move(parsed));
  options.caller = &caller;
  return options;
}

int run_words(const std::vector<std::string>& words, Caller& caller) {
  auto parsed = parse(words);
  if (const Help* help = std::get_if<Help>(&parsed)) {
    caller.answer = help->text;
    return kExitOk;
  }
  Options& options = std::get<Options>(parsed);
  options.caller = &caller;
  return run_command(options);
}

}  // namespace plansearch::cli
