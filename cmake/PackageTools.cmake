# SPDX-License-Identifier: Apache-2.0
# Read by `cpack` before each kind of package. Without these programs CPack fails in one line that names no package, or
# writes a .deb that depends on nothing and does not start.
if(CPACK_GENERATOR STREQUAL "DEB")
  foreach(program dpkg-shlibdeps file)
    find_program(found_${program} ${program})
    if(NOT found_${program})
      message(FATAL_ERROR "${program} is missing, by which a .deb knows the libraries that it needs: "
                          "apt-get install dpkg-dev file; or cpack -G TGZ for the archive alone")
    endif()
  endforeach()
endif()
