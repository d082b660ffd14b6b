// SPDX-License-Identifier: Apache-2.0
// Shipped profiles with random damage: each one loads or is refused with an InputError, and
// nothing else ever happens. The sequence is fixed.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "io/document/file.hpp"
#include "io/hardware/profile_reader.hpp"
#include "plansearch/error.hpp"
#include "support/mutator.hpp"
#include "support/source_directory.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::profile_fuzz_test {
namespace fs = std::filesystem;

namespace {

constexpr int kMutations = 1200;

/// A cluster file that makes the loader read `file`, by the folder it lies in.
std::string reader_of(const fs::path& file) {
  const std::string folder = file.parent_path().filename().string();
  const std::string name = file.stem().string();
  const std::string head = "schema: plansearch/profile/v1\nname: x\naccelerators_per_node: 8\n";
  const std::string accelerator =
      "accelerator: " + (folder == "accelerators" ? name : "a100-sxm4-80gb") + "\n";
  const std::string link = folder == "links" ? "    link: " + name + "\n" : "";
  const std::string fabric = folder == "fabrics" ? "    fabric: " + name + "\n" : "";
  return head + accelerator +
         "tiers:\n  - name: a\n    kind: switch\n    size: 8\n    bandwidth: 300 GB/s\n" + link +
         "  - name: b\n    kind: fat-tree\n    size: 64\n    bandwidth: 25 GB/s\n" + fabric;
}

void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

}  // namespace

TEST_SUITE("fuzz") {
  TEST_CASE("profiles with random damage load or are refused") {
    const test::TemporaryDirectory dir;
    const fs::path copy = dir.path() / "profiles";
    fs::copy(fs::path(PLANSEARCH_SOURCE_DIR) / "hardware_profiles", copy,
             fs::copy_options::recursive);
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(copy)) {
      if (entry.path().extension() == ".yaml") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    const std::array<fs::path, 1> directories = {copy};
    const fs::path probe = dir.path() / "probe.yaml";
    test::Mutator mutator(20240607);
    int loaded = 0;
    int refused = 0;
    for (int i = 0; i < kMutations; ++i) {
      const fs::path& file = files[mutator.below(files.size())];
      const std::string original = io::read_file(file);
      write(file, mutator.damage(original));
      write(probe, reader_of(file));
      const bool is_cluster = file.parent_path() == copy && file.stem() != "defaults";
      try {
        (void)io::load_cluster((is_cluster ? file : probe).string(), directories);
        ++loaded;
      } catch (const InputError& e) {
        CHECK_FALSE(e.formatted().empty());
        ++refused;
      }
      write(file, original);
    }
    CHECK(loaded + refused == kMutations);
    CHECK(loaded > kMutations / 20);
    CHECK(refused > kMutations / 4);
  }
}

}  // namespace plansearch::profile_fuzz_test
