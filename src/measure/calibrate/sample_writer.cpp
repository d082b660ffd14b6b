// SPDX-License-Identifier: Apache-2.0
#include "measure/calibrate/session.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "plansearch/error.hpp"

namespace plansearch::calibrate {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw InputError({path, 0, 0}, fmt::format("{}: {}", what, std::strerror(errno)),
                   "the samples before it are kept; free space or name another file with --out");
}

void require_same(const std::string& path, const io::SampledMachine& old,
                  const io::SampledMachine& now) {
  if (old.backend == now.backend && old.name == now.name &&
      old.multiprocessors == now.multiprocessors) {
    return;
  }
  throw InputError({path, 1, 1},
                   fmt::format("the file holds samples of {} ({}), this machine is {} ({})",
                               old.name, old.backend, now.name, now.backend),
                   "name another file with --out");
}

io::SampleFile read_old(const std::string& path, const io::SampledMachine& machine) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  io::SampleFile old = io::parse_samples(io::read_file(path, io::kLargestSampleFile), path);
  if (old.whole_bytes > 0) require_same(path, old.machine, machine);
  return old;
}

/// At the end of the last whole line.
io::Descriptor open_to_add(const std::string& path, const io::SampleFile& old) {
  io::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file.valid()) fail(path, "cannot write the file");
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) fail(path, "another run writes the file");
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error) &&
      ::ftruncate(file.get(), static_cast<off_t>(old.whole_bytes)) != 0) {
    fail(path, "cannot remove the last line of a killed run");
  }
  return file;
}

}  // namespace

SampleWriter::SampleWriter(std::string path, const io::SampledMachine& machine,
                           std::string_view date)
    : path_(std::move(path)), old_(read_old(path_, machine)), file_(open_to_add(path_, old_)) {
  if (old_.whole_bytes == 0) write(io::machine_line(machine, date));
}

void SampleWriter::add(const io::Sample& sample) {
  write(io::sample_line(sample));
}

void SampleWriter::write(std::string_view line) {
  if (!io::write_all(file_.get(), line)) fail(path_, "cannot write a sample");
}

}  // namespace plansearch::calibrate
