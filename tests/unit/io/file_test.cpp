// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <iterator>

#include "io/document/file.hpp"
#include "plansearch/error.hpp"
#include "unit/io/temporary_directory.hpp"

namespace plansearch::file_test {
using plansearch::test::TemporaryDirectory;

namespace {

long files_in(const std::filesystem::path& directory) {
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

}  // namespace

TEST_SUITE("unit") {
  TEST_CASE("file: written whole, replaced whole") {
    const TemporaryDirectory dir;
    io::write_file(dir.path() / "a.txt", "one");
    io::write_file(dir.path() / "a.txt", "two");
    CHECK(io::read_file(dir.path() / "a.txt") == "two");
    CHECK(files_in(dir.path()) == 1);
    CHECK((std::filesystem::status(dir.path() / "a.txt").permissions() &
           std::filesystem::perms::owner_read) != std::filesystem::perms::none);
  }

  TEST_CASE("file: written piece by piece, it appears when it is complete") {
    const TemporaryDirectory dir;
    const auto path = dir.write("a.txt", "old");
    {
      io::NewFile abandoned(path);
      abandoned.append("half");
      CHECK(io::read_file(path) == "old");
      // What a process that is killed here leaves behind.
      const io::Descriptor unnamed(::open(dir.path().c_str(), O_TMPFILE | O_WRONLY, 0600));
      if (unnamed.valid()) CHECK(files_in(dir.path()) == 1);
    }
    CHECK(files_in(dir.path()) == 1);
    io::NewFile file(path);
    file.append("one, ");
    file.append("two");
    CHECK(io::read_file(path) == "old");
    file.commit();
    CHECK(io::read_file(path) == "one, two");
    CHECK(files_in(dir.path()) == 1);
  }

  TEST_CASE("file: a symbolic link keeps pointing") {
    const TemporaryDirectory dir;
    const auto target = dir.write("target.txt", "old");
    std::filesystem::create_symlink(target, dir.path() / "link.txt");
    io::write_file(dir.path() / "link.txt", "new");
    CHECK(std::filesystem::is_symlink(dir.path() / "link.txt"));
    CHECK(io::read_file(target) == "new");
  }

  TEST_CASE("file: a symbolic link to a file that is not there yet makes that file") {
    const TemporaryDirectory dir;
    std::filesystem::create_symlink("later.txt", dir.path() / "first.txt");
    std::filesystem::create_symlink("first.txt", dir.path() / "link.txt");
    io::write_file(dir.path() / "link.txt", "new");
    CHECK(std::filesystem::is_symlink(dir.path() / "link.txt"));
    CHECK(std::filesystem::is_symlink(dir.path() / "first.txt"));
    CHECK(io::read_file(dir.path() / "later.txt") == "new");
  }

  TEST_CASE("file: failures name the file and leave nothing behind") {
    const TemporaryDirectory dir;
    CHECK_THROWS_AS(io::write_file(dir.path() / "no" / "such" / "a.txt", "x"), InputError);
    CHECK_THROWS_AS(io::write_file(dir.path(), "x"), InputError);
    CHECK(files_in(dir.path()) == 0);
    CHECK_THROWS_AS((void)io::read_file(dir.path()), InputError);
    CHECK_THROWS_AS((void)io::read_file(dir.path() / "missing"), InputError);
    io::write_file("/dev/null", "discarded");
    CHECK_THROWS_AS(io::write_file("/dev/full", "x"), InputError);
  }

  TEST_CASE("file: the size limit stops endless input") {
    CHECK_THROWS_WITH_AS((void)io::read_file("/dev/zero", 1024 * 1024),
                         "larger than 1.00 MiB, the limit for such a file", InputError);
  }

  TEST_CASE("file: a file without write permission is refused and kept") {
    if (::geteuid() == 0) return;  // root may write everything
    const TemporaryDirectory dir;
    const auto file = dir.write("a.txt", "old");
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
    CHECK_THROWS_AS(io::write_file(file, "new"), InputError);
    CHECK(io::read_file(file) == "old");
  }
}

}  // namespace plansearch::file_test
