// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "base/units.hpp"
#include "io/document/document.hpp"
#include "io/document/name_resolver.hpp"
#include "io/document/raw_value.hpp"
#include "io/framework/framework_reader.hpp"
#include "io/hardware/profile_parts.hpp"
#include "io/hardware/profile_reader.hpp"

namespace plansearch::io {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepest = 8;

/// Whether a text is a quantity above zero: a tenth of nothing is nothing.
bool is_quantity(std::string_view text) {
  const auto is = [](const auto& value) { return value && value->value() > 0.0; };
  return is(parse_quantity<Bandwidth>(text)) || is(parse_quantity<Seconds>(text)) ||
         is(parse_quantity<FlopRate>(text)) || is(parse_quantity<Bytes>(text));
}

std::string joined(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string name_of(const RawValue& item, std::size_t index) {
  const RawValue* name = value_under(item, "name");
  return name != nullptr ? name->text : fmt::format("{}", index);
}

/// Leaves of trees laid over each other: the last value of a path holds.
class Leaves {
 public:
  void add(const RawValue& value, const std::string& path) {
    if (value.kind == RawKind::Plain) set(path, value.text);
    for (const RawEntry& entry : value.entries) {
      const bool words = entry.key == "provenance" || entry.key == "software";
      if (!words) add(entry.value, joined(path, entry.key));
    }
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      add(value.items[i], joined(path, name_of(value.items[i], i)));
    }
  }
  [[nodiscard]] std::vector<FileQuantity> take() { return std::move(found_); }

 private:
  void set(const std::string& path, const std::string& text) {
    const auto known = std::ranges::find(found_, path, &FileQuantity::key);
    if (!is_quantity(text)) {
      if (known != found_.end()) found_.erase(known);
    } else if (known != found_.end()) {
      known->value = text;
    } else {
      found_.push_back({path, text, path, "", ""});
    }
  }
  std::vector<FileQuantity> found_;
};

std::optional<std::string> text_of(const RawValue& map, std::string_view key) {
  const RawValue* value = value_under(map, key);
  return value != nullptr && value->entries.empty() ? std::optional(value->text) : std::nullopt;
}

/// The tree of a file on top of those it is `like`, each added at `path`.
class Chain {
 public:
  /// Look-up of names in a file of a folder, the same as that of the reader of these files.
  using Lookup = std::function<NamedFiles(const fs::path& beside)>;

  Chain(Lookup files, Leaves& leaves) : files_(std::move(files)), leaves_(leaves) {}

  void add(std::string_view name, const fs::path& beside, const std::string& path, int depth,
           std::span<const Override> overrides = {}) {
    const fs::path file = resolve_file(name, files_(beside));
    const Document document = overlaid(Document::read(file), overrides);
    add(document.raw(), document.directory(), path, depth);
  }
  void add(const RawValue& tree, const fs::path& beside, const std::string& path, int depth) {
    const auto like = text_of(tree, "like");
    if (like && depth < kDeepest) add(*like, beside, path, depth + 1);
    leaves_.add(tree, path);
  }

 private:
  Lookup files_;
  Leaves& leaves_;
};

bool is_curve(std::string_view key) {
  return key.find(".link.") != std::string_view::npos ||
         key.find(".fabric.") != std::string_view::npos;
}

/// Adds the quantities of a curve as the machine has it, scaled to its tier. `--set` replaces a
/// curve as a whole.
void add_curve(const LinkTier& tier, std::vector<FileQuantity>& found) {
  const std::string path =
      fmt::format("tiers.{}.{}", tier.name, tier.is_fabric() ? "fabric" : "link");
  const std::string text = curve_text(tier.curve);
  Leaves leaves;
  leaves.add(Document::parse(text, "curve", Syntax::Yaml).raw(), path);
  for (FileQuantity one : leaves.take()) {
    const std::string key = one.key.substr(one.key.rfind('.') + 1);
    const std::string entry = fmt::format("{}: {}", key, one.value);
    const std::size_t at = text.find(entry);
    const bool inner = one.key.rfind('.') != path.size() || at == std::string::npos;
    if (inner) continue;  // of a measured table or a part of a curve
    const std::size_t value = at + entry.size() - one.value.size();
    one.path = path;
    one.before = text.substr(0, value);
    one.after = text.substr(value + one.value.size());
    found.push_back(std::move(one));
  }
}

/// "450 GB/s" as a number and its unit.
std::pair<double, std::string> parts_of(const std::string& value) {
  const std::size_t end = value.find_first_not_of("0123456789.+-eE");
  return {parse_number(value.substr(0, end)).value_or(0.0), value.substr(end)};
}

}  // namespace

std::string FileQuantity::set(double factor) const {
  const auto [number, unit] = parts_of(value);
  return fmt::format("{}={}{:.9g}{}{}", path, before, number * factor, unit, after);
}

std::vector<FileQuantity> cluster_quantities(std::string_view name_or_path,
                                             std::span<const fs::path> directories,
                                             std::span<const Override> overrides,
                                             const Cluster& cluster) {
  const Document profile = overlaid(open_cluster(name_or_path, directories), overrides);
  Leaves leaves;
  const ProfileLibrary library({directories.begin(), directories.end()});
  Chain chips(
      [&](const fs::path& beside) { return library.files("accelerator", "accelerators", beside); },
      leaves);
  if (const RawValue* chip = value_under(profile.raw(), "accelerator")) {
    const fs::path beside = chip->file ? fs::path(*chip->file).parent_path() : fs::path();
    if (chip->kind == RawKind::Map) {
      chips.add(*chip, beside, "accelerator", 0);
    } else {
      chips.add(chip->text, beside, "accelerator", 0);
    }
  }
  leaves.add(profile.raw(), "");
  std::vector<FileQuantity> found = leaves.take();
  std::erase_if(found, [](const FileQuantity& one) { return is_curve(one.key); });
  for (const LinkTier& tier : cluster.tiers) {
    const RawValue* tiers = value_under(profile.raw(), "tiers");
    const bool there =
        tiers != nullptr && std::ranges::any_of(tiers->items, [&](const RawValue& item) {
          return text_of(item, "name") == tier.name;
        });
    if (there) add_curve(tier, found);
  }
  return found;
}

std::vector<FileQuantity> framework_quantities(std::string_view name_or_path,
                                               std::span<const fs::path> directories,
                                               std::span<const Override> overrides) {
  Leaves leaves;
  Chain chain([&](const fs::path& beside) { return framework_files(directories, beside); }, leaves);
  chain.add(name_or_path, {}, "framework", 0, overrides);
  return leaves.take();
}

}  // namespace plansearch::io
