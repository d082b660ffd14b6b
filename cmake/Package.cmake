# SPDX-License-Identifier: Apache-2.0
# `cpack` in a build folder: plansearch_*.deb with the program, its data, manual and completions, plansearch-dev_*.deb with
# the library, and the program as an archive.
set(completions ${PROJECT_BINARY_DIR}/completions)
add_custom_command(OUTPUT ${completions}/bash ${completions}/zsh ${completions}/fish
                   COMMAND ${CMAKE_COMMAND} -E make_directory ${completions}
                   COMMAND plansearch completion bash --out ${completions}/bash
                   COMMAND plansearch completion zsh --out ${completions}/zsh
                   COMMAND plansearch completion fish --out ${completions}/fish
                   DEPENDS plansearch VERBATIM)
add_custom_target(completions ALL DEPENDS ${completions}/bash)
install(FILES ${completions}/bash RENAME plansearch COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${completions}/zsh RENAME _plansearch COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
install(FILES ${completions}/fish RENAME plansearch.fish COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${PROJECT_SOURCE_DIR}/packaging/man/plansearch.1 COMPONENT program DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE COMPONENT program RENAME copyright
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/plansearch)

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_VENDOR "plansearch")
set(CPACK_PACKAGE_CONTACT "plansearch maintainers <maintainers@plansearch.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program library)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/cmake/PackageTools.cmake)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME plansearch)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME plansearch-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "plansearch, libfmt-dev, libyaml-cpp-dev, zlib1g-dev")
if(PLANSEARCH_WITH_SQLITE)
  string(APPEND CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS ", libsqlite3-dev")
endif()
include(CPack)
