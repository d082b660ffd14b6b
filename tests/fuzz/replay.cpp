// SPDX-License-Identifier: Apache-2.0
// Reads every file of the corpus with its target, without libFuzzer: what once went wrong stays
// right.
#include <cstdio>
#include <filesystem>
#include <string>

#include "fuzz/targets.hpp"
#include "io/document/file.hpp"

int main(int count, char** arguments) {
  namespace fs = std::filesystem;
  if (count != 2) {
    std::fprintf(stderr, "usage: replay CORPUS\n");
    return 2;
  }
  int empty = 0;
  for (const plansearch::fuzz::Target& target : plansearch::fuzz::targets()) {
    int files = 0;
    const fs::path folder = fs::path(arguments[1]) / target.name;
    if (fs::exists(folder)) {
      for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        plansearch::fuzz::attempt(target, plansearch::io::read_file(entry.path()));
        ++files;
      }
    }
    std::printf("%-10s %d inputs\n", std::string(target.name).c_str(), files);
    if (files == 0) ++empty;
  }
  return empty;
}
