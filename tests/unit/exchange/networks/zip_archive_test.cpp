// SPDX-License-Identifier: Apache-2.0
// Archives written byte by byte, as PKWARE's APPNOTE describes them.
#include <doctest/doctest.h>
#include <zlib.h>

#include <sstream>
#include <string>

#include "exchange/networks/zip_archive.hpp"
#include "plansearch/error.hpp"

namespace plansearch::io::zip_archive_test {
namespace {

std::string little(std::uint64_t value, int width) {
  std::string bytes;
  for (int i = 0; i < width; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xffU);
  return bytes;
}

std::string deflated(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(text.size() + 1000, '\0');
  std::string in = text;
  stream.next_in = reinterpret_cast<Bytef*>(in.data());
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

struct Written {
  std::string name = "net/models/model.json";
  std::string text = "{\"a\": 1}";
  bool deflate = false;
  std::uint64_t claimed = 0;  ///< size in the directory, where it is not the text's
  std::uint32_t checksum_off = 0;
};

std::string zip(const Written& w) {
  const std::string packed = w.deflate ? deflated(w.text) : w.text;
  const auto checksum =
      crc32(0, reinterpret_cast<const Bytef*>(w.text.data()), static_cast<uInt>(w.text.size()));
  const std::uint64_t size = w.claimed == 0 ? w.text.size() : w.claimed;
  const std::string numbers = little(w.deflate ? 8 : 0, 2) + little(0, 4) +
                              little(checksum + w.checksum_off, 4) + little(packed.size(), 4) +
                              little(size, 4) + little(w.name.size(), 2) + little(0, 2);
  const std::string local = "PK\3\4" + little(20, 2) + little(0, 2) + numbers + w.name;
  const std::string central = "PK\1\2" + little(20, 2) + little(20, 2) + little(0, 2) + numbers +
                              little(0, 2) + little(0, 2) + little(0, 2) + little(0, 4) +
                              little(0, 4) + w.name;
  const std::uint64_t offset = local.size() + packed.size();
  return local + packed + central + "PK\5\6" + little(0, 4) + little(1, 2) + little(1, 2) +
         little(central.size(), 4) + little(offset, 4) + little(0, 2);
}

ZipArchive opened(const std::string& bytes) {
  return {std::make_unique<std::istringstream>(bytes), "net.pt2"};
}

std::string content(const std::string& bytes, std::size_t limit = 1000) {
  const ZipArchive archive = opened(bytes);
  const ZipEntry* entry = archive.find("models/model.json");
  REQUIRE(entry != nullptr);
  return archive.read(*entry, limit);
}

std::string message(const std::string& bytes, std::size_t limit = 1000) {
  try {
    return "read: " + content(bytes, limit);
  } catch (const InputError& error) {
    CHECK(error.where().file == "net.pt2");
    CHECK(!error.hint().empty());
    return error.what();
  }
}

}  // namespace

TEST_CASE("stored and deflated files are read") {
  CHECK(content(zip({})) == "{\"a\": 1}");
  const std::string long_text(900, 'x');
  CHECK(content(zip({.text = long_text, .deflate = true})) == long_text);
}

TEST_CASE("what is larger than the limit is refused before it is unpacked") {
  const std::string text(100'000, '0');
  CHECK(message(zip({.text = text, .deflate = true}), 99'999).find("100000 bytes unpacked") !=
        std::string::npos);
}

TEST_CASE("a bomb that unpacks to more than it claims stops at its claim") {
  const std::string text(100'000, '0');
  CHECK(
      message(zip({.text = text, .deflate = true, .claimed = 10})).find("does not unpack to 10") !=
      std::string::npos);
}

TEST_CASE("a wrong checksum is damage") {
  CHECK(message(zip({.checksum_off = 1})).find("damaged") != std::string::npos);
}

TEST_CASE("no prefix of an archive is an archive") {
  const std::string bytes = zip({});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    CHECK_THROWS_AS(static_cast<void>(content(bytes.substr(0, length))), InputError);
  }
}

TEST_CASE("no byte that is changed makes another text") {
  const std::string bytes = zip({.text = std::string(50, 'y'), .deflate = true});
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string other = bytes;
    other[at] = static_cast<char>(other[at] ^ 0x55);
    try {
      const ZipArchive archive = opened(other);
      for (const ZipEntry& entry : archive.entries()) {
        const std::string text = archive.read(entry, 1000);
        CHECK(text == std::string(50, 'y'));
      }
    } catch (const InputError& error) {
      CHECK(!std::string(error.what()).empty());
    }
  }
}

}  // namespace plansearch::io::zip_archive_test
