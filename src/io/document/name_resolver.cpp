// SPDX-License-Identifier: Apache-2.0
#include "io/document/name_resolver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/names.hpp"
#include "base/ranges.hpp"
#include "io/document/document.hpp"
#include "io/document/file.hpp"

namespace plansearch::io {
namespace {

namespace fs = std::filesystem;

bool has_extension(const fs::path& path, const NamedFiles& kind) {
  const std::string extension = path.extension().string();
  return contains(kind.extensions, extension);
}

/// Adds the files of a directory by canonical name; a name that is known stays what it is.
void add_files(const fs::path& directory, const NamedFiles& kind,
               std::map<std::string, fs::path>& found) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    const fs::path& path = entry.path();
    const auto& apart = kind.apart;
    if (!has_extension(path, kind) || !entry.is_regular_file(error)) continue;
    if (contains(apart, path.stem())) continue;
    found.emplace(canonical_name(path.stem().string()), path);
  }
}

/// Whether a file says that it is of the kind; a broken one says nothing.
bool says_kind(const fs::path& path, const NamedFiles& kind) {
  try {
    const Document document = Document::read(path);
    if (!document.root().is_map()) return false;
    const auto schema = document.root().find("schema");
    return schema && schema->text() == kind.schema;
  } catch (const InputError&) {
    return false;
  }
}

constexpr std::string_view kAliases = "aliases";

/// The `aliases:` of a file; none when the file has none or is broken (loading it will say so).
std::vector<std::string> aliases_of(const fs::path& path) {
  std::vector<std::string> aliases;
  try {
    // Most files have none, and some are long: the word is looked for before the text is parsed.
    if (read_file(path, ParseLimits{}.size).find(kAliases) == std::string::npos) return aliases;
    const Document document = Document::read(path);
    if (!document.root().is_map()) return aliases;
    if (const auto list = document.root().find(kAliases)) aliases = list->texts();
  } catch (const InputError&) {
    aliases.clear();
  }
  return aliases;
}

std::string without_extension(std::string_view text, const NamedFiles& kind) {
  for (const std::string& extension : kind.extensions) {
    if (text.size() > extension.size() && text.ends_with(extension)) {
      return std::string(text.substr(0, text.size() - extension.size()));
    }
  }
  return std::string(text);
}

fs::path at_base(std::string_view text, const NamedFiles& kind) {
  fs::path path{std::string(text)};
  return kind.base.empty() ? path : kind.base / path;
}

/// Whether the text reads as a path rather than a name: it has a directory part, or a file with
/// a known extension is there.
bool is_path(std::string_view text, const NamedFiles& kind) {
  if (text == kStandardInput && kind.base.empty()) return true;
  const fs::path written{std::string(text)};
  const fs::path path = at_base(text, kind);
  std::error_code error;
  if (fs::exists(path, error)) return written.has_parent_path() || has_extension(path, kind);
  return written.has_parent_path() && has_extension(path, kind);
}

/// Hubs write "organisation/Name", and have it as an address.
std::string_view without_organisation(std::string_view text) {
  constexpr std::string_view kHub = "https://huggingface.co/";
  if (text.starts_with(kHub)) text.remove_prefix(kHub.size());
  const std::size_t slash = text.find('/');
  const bool one = slash != std::string_view::npos && text.rfind('/') == slash;
  return one && slash + 1 < text.size() ? text.substr(slash + 1) : text;
}

using Files = std::map<std::string, fs::path>;

/// The file that ships under one of the names or aliases: the first name that any has.
class ShippedNames {
 public:
  explicit ShippedNames(Files files) : files_(std::move(files)) {}

  std::optional<fs::path> find(const std::string& name) {
    if (const auto found = files_.find(name); found != files_.end()) return found->second;
    auto found = aliases_.find(name);
    while (found == aliases_.end() && read_next()) found = aliases_.find(name);
    if (found != aliases_.end()) return found->second;
    const auto title = titles_.find(name);
    return title == titles_.end() ? std::nullopt : std::optional(title->second);
  }
  /// The one whose letters and digits are these, hyphens left out.
  std::optional<fs::path> find_unhyphenated(const std::string& name) const {
    const std::string wanted = unhyphenated(name);
    for (const Files* names : {&files_, &aliases_}) {
      const auto found = std::ranges::find_if(
          *names, [&](const auto& entry) { return unhyphenated(entry.first) == wanted; });
      if (found != names->end()) return found->second;
    }
    return std::nullopt;
  }
  [[nodiscard]] std::vector<std::string> known() const {
    std::vector<std::string> names;
    for (const auto& [name, path] : files_) names.push_back(name);
    for (const auto& [name, path] : aliases_) names.push_back(name);
    return names;
  }
  [[nodiscard]] std::size_t count() const { return files_.size(); }

 private:
  static std::string unhyphenated(std::string name) {
    std::erase(name, '-');
    return name;
  }
  /// Reading files takes longer than all else: only until one has the name.
  bool read_next() {
    if (next_ == files_.end()) return false;
    for (const std::string& alias : aliases_of(next_->second)) {
      const bool title = alias.find(' ') != std::string::npos;
      (title ? titles_ : aliases_).emplace(canonical_name(alias), next_->second);
    }
    ++next_;
    return true;
  }

  Files files_, aliases_;
  Files titles_;  ///< aliases with blanks, as in tables of measurements: never offered
  Files::const_iterator next_ = files_.begin();  ///< the first whose aliases are not read
};

std::optional<fs::path> find_beside(const std::string& name, const NamedFiles& kind) {
  for (const fs::path& directory : kind.beside) {
    Files own;
    add_files(directory, kind, own);
    const auto found = own.find(name);
    if (found != own.end() && says_kind(found->second, kind)) return found->second;
  }
  return std::nullopt;
}

[[noreturn]] void refuse_name(std::string_view text, const std::string& bare,
                              const NamedFiles& kind, const ShippedNames& names,
                              const SourceLocation& where) {
  std::string hint = did_you_mean(bare, names.known());
  if (names.count() == 0) hint = "no such files in the search directories";
  if (hint.empty() && !kind.listing.empty()) {
    hint = fmt::format("plansearch list {} shows the {} that ship", kind.listing, names.count());
  }
  if (!kind.otherwise.empty()) hint += "; " + kind.otherwise;
  const bool names_file = has_extension(at_base(text, kind), kind);
  throw InputError(where,
                   fmt::format("unknown {} '{}'{}", kind.what, text,
                               names_file ? ": no such file here, and none that ships" : ""),
                   hint);
}

}  // namespace

std::vector<NamedFile> list_files(const NamedFiles& kind) {
  std::map<std::string, fs::path> found;
  for (const fs::path& directory : kind.directories) add_files(directory, kind, found);
  std::vector<NamedFile> files;
  for (const auto& [name, path] : found) {
    files.push_back({path.stem().string(), aliases_of(path), path});
  }
  return files;
}

fs::path resolve_file(std::string_view text, const NamedFiles& kind, const SourceLocation& where) {
  if (text.empty()) throw InputError(where, fmt::format("no {} named", kind.what));
  if (is_path(text, kind)) return at_base(text, kind);
  std::string bare = canonical_name(without_extension(without_organisation(text), kind));
  std::ranges::replace(bare, ':', '-');  // "qwen3:8b"
  if (const auto own = find_beside(bare, kind)) return *own;
  Files files;
  for (const fs::path& directory : kind.directories) add_files(directory, kind, files);
  ShippedNames names(std::move(files));
  if (const auto found = names.find(bare)) return *found;
  // An alias may have a slash.
  if (const auto found = names.find(canonical_name(without_extension(text, kind)))) return *found;
  std::error_code error;
  if (fs::exists(at_base(text, kind), error)) return at_base(text, kind);
  if (const auto found = names.find_unhyphenated(bare)) return *found;
  if (kind.plainer) {
    for (const std::string& plainer : kind.plainer(bare)) {
      if (const auto found = names.find(plainer)) return *found;
    }
  }
  refuse_name(text, bare, kind, names, where);
}

}  // namespace plansearch::io
