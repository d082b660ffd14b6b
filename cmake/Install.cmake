# SPDX-License-Identifier: Apache-2.0
# What cmake --install writes: the executable, libraries, headers, data, and the package
# that find_package(plansearch CONFIG) reads.
install(TARGETS plansearch COMPONENT program)
if(NOT PLANSEARCH_STATIC)  # a static executable comes alone: its libraries are not those of the system
  include(CMakePackageConfigHelpers)
  set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/plansearch)

  # plansearch::plansearch is the whole library; its parts are libraries of their own.
  add_library(plansearch_library INTERFACE)
  add_library(plansearch::plansearch ALIAS plansearch_library)
  target_link_libraries(plansearch_library INTERFACE plansearch_answer)
  set_target_properties(plansearch_library PROPERTIES EXPORT_NAME plansearch)
  foreach(part settings base cost search io report exporters question answer commands exchange evidence measure)
    set_target_properties(plansearch_${part} PROPERTIES EXPORT_NAME ${part})
    install(TARGETS plansearch_${part} EXPORT plansearchTargets COMPONENT library)
  endforeach()
  install(TARGETS plansearch_library EXPORT plansearchTargets COMPONENT library)
  install(EXPORT plansearchTargets NAMESPACE plansearch:: DESTINATION ${package_directory} COMPONENT library)

  configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/plansearchConfig.cmake.in plansearchConfig.cmake
                                INSTALL_DESTINATION ${package_directory} PATH_VARS CMAKE_INSTALL_DATADIR)
  write_basic_package_version_file(plansearchConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/plansearchConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/plansearchConfigVersion.cmake
          DESTINATION ${package_directory} COMPONENT library)

  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/plansearch DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library)
endif()

plansearch_install_data(${CMAKE_INSTALL_DATADIR}/plansearch COMPONENT program)
include(Package)
