// SPDX-License-Identifier: Apache-2.0
// Files as whole texts. Every failure is an InputError that names the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace plansearch::io {

inline constexpr std::size_t kDefaultSizeLimit = std::size_t{8} << 20U;

/// The name that stands for standard input.
inline constexpr std::string_view kStandardInput = "-";

/// The bytes of a file, or of standard input for "-". Directories, missing and unreadable files and
/// files above `size_limit` bytes are InputErrors. Waiting for what a pipe may hold ends by
/// Stopped.
[[nodiscard]] std::string read_file(const std::filesystem::path& path,
                                    std::size_t size_limit = kDefaultSizeLimit);

/// Hands over the bytes of a file while they come, however large, or of standard input for "-".
/// Failures are those of read_file.
void for_each_piece(const std::filesystem::path& path,
                    const std::function<void(std::string_view)>& take);

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor() { static_cast<void>(close()); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  /// Closes now; false when buffered data could not be written.
  bool close();

 private:
  int fd_;
};

/// False when not all could be written; errno says why.
[[nodiscard]] bool write_all(int fd, std::string_view content);

/// A file that is written piece by piece next to `path`, without a name where the system can, and
/// replaces it when it is complete: a failure leaves the old file (or none) and nothing
/// half-written. Devices and pipes (/dev/stdout) are written directly. Every failure is an
/// InputError.
class NewFile {
 public:
  explicit NewFile(const std::filesystem::path& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void append(std::string_view content);
  /// Puts the file in its place; nothing is appended after that.
  void commit();

 private:
  [[nodiscard]] Descriptor open();
  /// The temporary name, under which it can replace another file.
  [[nodiscard]] bool take_name();

  std::filesystem::path path_;
  std::string temporary_;  ///< empty: written directly, or in its place
  bool named_ = true;
  Descriptor out_;
};

/// Replaces `path` by `content` in one step, as NewFile does.
void write_file(const std::filesystem::path& path, std::string_view content);

}  // namespace plansearch::io
