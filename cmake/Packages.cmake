# SPDX-License-Identifier: Apache-2.0
# libtelpher, -rma, -mdr, -ampi and -offload for other builds: find_package(telpher COMPONENTS rma mdr ampi offload) and pkg-config. All paths
# are relative to the files themselves, so that the prefix can be moved.
install(DIRECTORY include/telpher ${PROJECT_BINARY_DIR}/include/telpher
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp" PATTERN "*.f90")
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/telpher)
file(RELATIVE_PATH TELPHER_PC_TO_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" TELPHER_PC_TO_PREFIX "${TELPHER_PC_TO_PREFIX}")

# telpher_pkg_config(<name> [COMPONENT c] DESCRIPTION … LIBS … [CFLAGS …] [REQUIRES …]): NAME.pc. Beside it lies
# NAME-uninstalled.pc, which pkg-config takes first, and which names the build folder.
function(telpher_pkg_config PC_NAME)
  cmake_parse_arguments(PC "" "COMPONENT;DESCRIPTION;LIBS;CFLAGS;REQUIRES" "" ${ARGN})
  set(PC_PREFIX "\${pcfiledir}/${TELPHER_PC_TO_PREFIX}")
  set(PC_INCLUDEDIR "\${prefix}/${TELPHER_INCLUDEDIR}")
  set(PC_LIBDIR "\${prefix}/${TELPHER_LIBDIR}")
  configure_file(cmake/telpher.pc.in ${PC_NAME}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${PC_NAME}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
    COMPONENT ${PC_COMPONENT})
  set(PC_PREFIX ${PROJECT_BINARY_DIR})
  set(PC_INCLUDEDIR ${PROJECT_SOURCE_DIR}/include)
  set(PC_LIBDIR "\${prefix}/lib")
  string(APPEND PC_CFLAGS " -I\${prefix}/include") # version.h
  configure_file(cmake/telpher.pc.in ${PC_NAME}-uninstalled.pc @ONLY)
endfunction()

# telpher_export(<export set> [component]): its targets, telpher::NAME.
function(telpher_export set)
  install(EXPORT ${set} FILE ${set}Targets.cmake NAMESPACE telpher:: DESTINATION ${package_dir} COMPONENT ${ARGN})
endfunction()

set_target_properties(telpher_api PROPERTIES EXPORT_NAME telpher)
install(TARGETS telpher_api EXPORT telpher
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
telpher_export(telpher Unspecified)
telpher_pkg_config(telpher COMPONENT Unspecified DESCRIPTION "${PROJECT_DESCRIPTION}" LIBS -ltelpher)

set_target_properties(telpher-rma PROPERTIES EXPORT_NAME rma)
set_target_properties(telpher-rma-check PROPERTIES EXPORT_NAME rma-check)
install(TARGETS telpher-rma telpher-rma-check EXPORT telpher-rma
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
telpher_export(telpher-rma Unspecified)
telpher_pkg_config(telpher-rma COMPONENT Unspecified DESCRIPTION "Kernels whose ranks communicate while they run"
  LIBS -ltelpher-rma REQUIRES telpher)

set_target_properties(telpher-mdr PROPERTIES EXPORT_NAME mdr)
install(TARGETS telpher-mdr EXPORT telpher-mdr
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
telpher_export(telpher-mdr Unspecified)
telpher_pkg_config(telpher-mdr COMPONENT Unspecified DESCRIPTION "Message-driven objects on processors and GPUs"
  LIBS -ltelpher-mdr REQUIRES telpher)

set_target_properties(telpher-ampi PROPERTIES EXPORT_NAME ampi)
install(TARGETS telpher-ampi-heap LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS telpher-ampi EXPORT telpher-ampi
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/telpher/ampi)
telpher_export(telpher-ampi Unspecified)
telpher_pkg_config(telpher-ampi COMPONENT Unspecified DESCRIPTION "MPI with more ranks than processes"
  CFLAGS "-I\${includedir}/telpher/ampi -fPIC" LIBS "${TELPHER_AMPI_PROGRAM} -ltelpher-ampi" REQUIRES telpher)

# COMPONENT: each MPI's part is a package of its own, since it needs that MPI.
if(TELPHER_HAVE_OFFLOAD)
  foreach(mpi IN LISTS TELPHER_MPIS)
    set(set telpher-offload-${mpi})
    set_target_properties(telpher-offload-${mpi} PROPERTIES EXPORT_NAME offload-${mpi})
    set_target_properties(telpher-worker-${mpi} PROPERTIES EXPORT_NAME worker-${mpi})
    install(TARGETS telpher-offload-${mpi} telpher-worker-${mpi} EXPORT ${set} COMPONENT ${mpi}
      LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
      INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    telpher_export(${set} ${mpi})
    list(TRANSFORM TELPHER_MPI_${mpi}_INCLUDES PREPEND -I OUTPUT_VARIABLE includes)
    list(JOIN includes " " includes)
    telpher_pkg_config(telpher-offload-${mpi} COMPONENT ${mpi} CFLAGS "${includes}"
      DESCRIPTION "Kernels over MPI, for programs that call them (${mpi})"
      LIBS "-ltelpher-offload-${mpi} ${TELPHER_MPI_${mpi}_LIBRARY}")
    telpher_pkg_config(telpher-worker-${mpi} COMPONENT ${mpi} CFLAGS "${includes}"
      DESCRIPTION "Kernels over MPI, for workers with kernels of their own (${mpi})"
      LIBS "-Wl,--no-as-needed -ltelpher-worker-${mpi} -ltelpher-offload-${mpi} ${TELPHER_MPI_${mpi}_LIBRARY}")
  endforeach()
endif()

foreach(mpi IN LISTS TELPHER_MPIS)
  if(NOT TARGET telpher-mpi-device-${mpi})
    continue()
  endif()
  install(TARGETS telpher-mpi-device-${mpi} COMPONENT ${mpi} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  telpher_pkg_config(telpher-mpi-device-${mpi} COMPONENT ${mpi} DESCRIPTION "Device memory in MPI calls (${mpi})"
    LIBS "-ltelpher-mpi-device-${mpi} ${TELPHER_MPI_${mpi}_LIBRARY}" REQUIRES telpher)
endforeach()

include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/telpherConfig.cmake.in
  ${PROJECT_BINARY_DIR}/telpherConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/telpherConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/telpherConfig.cmake
  ${PROJECT_BINARY_DIR}/telpherConfigVersion.cmake DESTINATION ${package_dir})
