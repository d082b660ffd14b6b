// SPDX-License-Identifier: Apache-2.0
#include "io/document/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/units.hpp"
#include "plansearch/error.hpp"
#include "plansearch/quantity.hpp"
#include "plansearch/stop_token.hpp"

namespace plansearch::io {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, std::string_view what, std::string hint = {}) {
  throw InputError({path.string(), 0, 0}, std::string(what), std::move(hint));
}

std::string remedy_of(int reason) {
  switch (reason) {
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    case EACCES:
    case EPERM:
    case EROFS:
      return "check who may read and write there";
    case ENOSPC:
    case EFBIG:
    case EDQUOT:
      return "make room, or name a file on another disk";
    default:
      return {};
  }
}

[[noreturn]] void fail_with_errno(const fs::path& path, std::string_view what) {
  const int reason = errno;
  fail(path, fmt::format("{}: {}", what, std::strerror(reason)), remedy_of(reason));
}

/// The permissions a newly created file gets here, or those of the file it replaces.
mode_t wanted_mode(const fs::path& path) {
  struct stat existing {};
  if (::stat(path.c_str(), &existing) == 0) return existing.st_mode & 07777U;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666U & ~mask;
}

/// The file that symbolic links lead to, whether it is there yet or not.
fs::path behind_links(fs::path path) {
  constexpr int kMostLinks = 40;  // as Linux
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(fs::symlink_status(path, error)); ++i) {
    path = path.parent_path() / fs::read_symlink(path, error);
  }
  return path;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

std::string link_to(const Descriptor& file) {
  return fmt::format("/proc/self/fd/{}", file.get());
}

/// A file without a name, of which a process that is killed leaves nothing. Invalid where the file
/// system has none, or where it could not be given a name later.
Descriptor open_unnamed(const fs::path& folder) {
  Descriptor file(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
  if (file.valid() && ::access(link_to(file).c_str(), F_OK) != 0) static_cast<void>(file.close());
  return file;
}

/// Not every file system syncs folders; a rename that is not on disk yet shows the old file.
void sync_folder_of(const fs::path& path) {
  const Descriptor folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) static_cast<void>(::fsync(folder.get()));
}

/// Until there is something to read, or nothing will ever be.
void wait_for_content(const Descriptor& in) {
  constexpr int kBetweenLooks = 50;  // milliseconds
  pollfd asked{in.get(), POLLIN, 0};
  for (;;) {
    const bool ready = ::poll(&asked, 1, kBetweenLooks) > 0;
    if (ready && (asked.revents & POLLIN) != 0) return;
    check_stop();
    if (ready) return;
  }
}

}  // namespace

bool write_all(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

void for_each_piece(const fs::path& path, const std::function<void(std::string_view)>& take) {
  const char* source = path == kStandardInput ? "/dev/stdin" : path.c_str();
  const Descriptor in(::open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!in.valid()) fail_with_errno(path, "cannot open");
  struct stat status {};
  if (::fstat(in.get(), &status) != 0) fail_with_errno(path, "cannot read");
  if (S_ISDIR(status.st_mode)) fail(path, "is a directory, not a file", "name a file inside it");
  std::string buffer(64U * 1024U, '\0');
  for (;;) {
    wait_for_content(in);
    const ssize_t got = ::read(in.get(), buffer.data(), buffer.size());
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got < 0) fail_with_errno(path, "cannot read");
    if (got == 0) return;
    take(std::string_view(buffer).substr(0, static_cast<std::size_t>(got)));
  }
}

std::string read_file(const fs::path& path, std::size_t size_limit) {
  std::string content;
  for_each_piece(path, [&](std::string_view piece) {
    content += piece;
    if (content.size() <= size_limit) return;
    fail(path,
         fmt::format("larger than {}, the limit for such a file",
                     to_text(Bytes(static_cast<double>(size_limit)))),
         "is this the right file?");
  });
  return content;
}

bool Descriptor::close() {
  const int fd = std::exchange(fd_, -1);
  return fd < 0 || ::close(fd) == 0;
}

Descriptor NewFile::open() {
  std::error_code error;
  const fs::file_status status = fs::status(path_, error);
  if (fs::is_directory(status)) {
    fail(path_, "is a directory, cannot write a file there", "name a file inside it");
  }
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    return Descriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
  }
  if (fs::exists(status) && ::access(path_.c_str(), W_OK) != 0) {
    fail_with_errno(path_, "cannot write");
  }
  path_ = behind_links(path_);
  temporary_ = path_.string() + ".tmp-XXXXXX";
  Descriptor unnamed = open_unnamed(folder_of(path_));
  named_ = !unnamed.valid();
  if (!named_) return unnamed;
  return Descriptor(::mkostemp(temporary_.data(), O_CLOEXEC));
}

NewFile::NewFile(const fs::path& path) : path_(path), out_(open()) {
  if (out_.valid()) return;
  const bool direct = temporary_.empty();
  temporary_.clear();
  fail_with_errno(path_, direct ? "cannot open for writing" : "cannot write");
}

NewFile::~NewFile() {
  if (named_ && !temporary_.empty()) ::unlink(temporary_.c_str());
}

bool NewFile::take_name() {
  if (named_) return true;
  temporary_ = fmt::format("{}.tmp-{}", path_.string(), ::getpid());
  ::unlink(temporary_.c_str());  // of a process of this number that was killed right here
  named_ = ::linkat(AT_FDCWD, link_to(out_).c_str(), AT_FDCWD, temporary_.c_str(),
                    AT_SYMLINK_FOLLOW) == 0;
  return named_;
}

void NewFile::append(std::string_view content) {
  if (!write_all(out_.get(), content)) fail_with_errno(path_, "cannot write");
}

void NewFile::commit() {
  if (temporary_.empty()) return;
  // On disk before it takes the name, so that whatever happens the name has the old file or all of
  // the new one.
  const bool placed = ::fchmod(out_.get(), wanted_mode(path_)) == 0 && ::fsync(out_.get()) == 0 &&
                      take_name() && out_.close() &&
                      std::rename(temporary_.c_str(), path_.c_str()) == 0;
  if (!placed) fail_with_errno(path_, "cannot write");
  temporary_.clear();
  sync_folder_of(path_);
}

void write_file(const fs::path& path, std::string_view content) {
  NewFile file(path);
  file.append(content);
  file.commit();
}

}  // namespace plansearch::io
