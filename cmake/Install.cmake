# SPDX-License-Identifier: Apache-2.0
# What is installed where. A target that is not built is left out.
# The build folder is laid out like an installation, so that programs find each other the same way in both:
# ../libexec/telpher and ../lib from where they are.
foreach(place IN ITEMS telpher:bin telpherd:bin telpher-bench:bin telpher-executor:libexec/telpher
    telpher-handshake:libexec/telpher telpher-relay:libexec/telpher
    telpher_api:lib telpher-opencl:lib)
  string(REGEX MATCH "^([^:]*):(.*)$" place ${place})
  if(TARGET ${CMAKE_MATCH_1})
    set_target_properties(${CMAKE_MATCH_1} PROPERTIES
      RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${CMAKE_MATCH_2}
      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${CMAKE_MATCH_2})
  endif()
endforeach()

# Programs: the daemon is in bin, since `telpher run` starts a private one for any user.
foreach(program IN ITEMS telpher telpherd telpher-bench)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
if(TARGET telpher-executor)
  install(TARGETS telpher-executor telpher-handshake telpher-relay RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/telpher)
endif()

# Before 1.0 each minor version is a soname of its own: libtelpher.so.0.1.
foreach(library IN ITEMS telpher_api telpher-opencl)
  if(TARGET ${library})
    set_target_properties(${library} PROPERTIES
      VERSION ${PROJECT_VERSION} SOVERSION ${TELPHER_SONAME_VERSION})
  endif()
endforeach()

# Libraries are found from the program that needs them, wherever the prefix lies; an MPI where it was found.
function(telpher_rpath way)
  foreach(target IN LISTS ARGN)
    if(TARGET ${target})
      set_target_properties(${target} PROPERTIES INSTALL_RPATH "${way}" INSTALL_RPATH_USE_LINK_PATH ON)
    endif()
  endforeach()
endfunction()
telpher_rpath("\$ORIGIN" telpher-rma telpher-mdr telpher-ampi)
telpher_rpath("\$ORIGIN/${TELPHER_BIN_TO_LIB}" telpher telpher-bench)
telpher_rpath("\$ORIGIN/${TELPHER_LIBEXEC_TO_LIB}" telpher-bench-ampi)
foreach(mpi IN LISTS TELPHER_MPIS)
  telpher_rpath("" telpher-offload-${mpi})
  telpher_rpath("\$ORIGIN" telpher-mpi-device-${mpi})
  telpher_rpath("\$ORIGIN/${TELPHER_BIN_TO_LIB}" telpher-worker.${mpi})
  telpher_rpath("\$ORIGIN/${TELPHER_LIBEXEC_TO_LIB}" telpher-bench-launch-${mpi})
endforeach()

include(cmake/Packages.cmake) # for CMake and pkg-config

# Nobody links to the ICD, so it gets no plain libtelpher-opencl.so.
if(TARGET telpher-opencl)
  install(TARGETS telpher-opencl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
endif()
if(TARGET telpherd AND TELPHER_HAVE_SYSTEMD)
  install(FILES packaging/systemd/telpher.sysusers DESTINATION lib/sysusers.d RENAME telpher.conf)
  install(FILES packaging/systemd/telpher.tmpfiles DESTINATION lib/tmpfiles.d RENAME telpher.conf)
endif()
# What names the prefix, or lies in /etc for some prefixes, is written when the prefix is known.
configure_file(cmake/InstallPrefix.cmake.in InstallPrefix.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/InstallPrefix.cmake)

if(TELPHER_HAVE_MAN)
  foreach(page IN ITEMS telpher.1 telpher-worker.1 telpher-worker-cc.1 telpher-mpicc.1 telpher-bench.1 telpherd.8 telpherd.conf.5 telpher-opencl.7)
    if(EXISTS ${PROJECT_SOURCE_DIR}/docs/man/${page})
      string(REGEX MATCH "[0-9]$" section ${page})
      install(FILES docs/man/${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    endif()
  endforeach()
endif()
install(FILES packaging/grafana.json DESTINATION ${CMAKE_INSTALL_DATADIR}/telpher)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# make deb: telpher, and for each MPI telpher-<mpi> with what is linked with that MPI, so that nobody must install both.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME telpher)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR Telpher)
set(CPACK_PACKAGE_CONTACT "The Telpher authors <telpher@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_STRIP_FILES ON)
set(CPACK_SET_DESTDIR ON) # /etc is outside of the prefix
set(CPACK_INSTALL_PREFIX ${CMAKE_INSTALL_PREFIX})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL Unspecified)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)

set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_NAME telpher)
set(CPACK_COMPONENT_UNSPECIFIED_DESCRIPTION "Runs unmodified OpenCL programs on accelerators of other machines: an
OpenCL driver (ICD) for the client, a daemon for the server, the telpher command and a benchmark.")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_DEPENDS "adduser")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_RECOMMENDS "ocl-icd-libopencl1 | libopencl1, python3")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SUGGESTS "pocl-opencl-icd, python3-matplotlib, telpher-openmpi, telpher-mpich")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_CONTROL_EXTRA
  "${PROJECT_SOURCE_DIR}/packaging/debian/postinst;${PROJECT_SOURCE_DIR}/packaging/debian/prerm"
  "${PROJECT_SOURCE_DIR}/packaging/debian/postrm;${PROJECT_SOURCE_DIR}/packaging/debian/conffiles")

set(priority 20)
if(TELPHER_HAVE_OFFLOAD)
  foreach(mpi IN LISTS TELPHER_MPIS)
    string(TOUPPER ${mpi} MPI)
    set(scripts ${PROJECT_BINARY_DIR}/packaging/${mpi})
    foreach(script IN ITEMS postinst prerm)
      configure_file(packaging/debian-mpi/${script}.in ${scripts}/${script} @ONLY)
    endforeach()
    configure_file(packaging/debian-mpi/postrm ${scripts}/postrm COPYONLY)
    list(APPEND CPACK_COMPONENTS_ALL ${mpi})
    set(CPACK_DEBIAN_${MPI}_PACKAGE_NAME telpher-${mpi})
    set(CPACK_COMPONENT_${MPI}_DESCRIPTION "Kernels of MPI programs offloaded to other processes, for one MPI (${mpi}): library,
worker program, benchmark.")
    set(CPACK_DEBIAN_${MPI}_PACKAGE_DEPENDS "telpher (= ${PROJECT_VERSION})")
    set(CPACK_DEBIAN_${MPI}_PACKAGE_CONTROL_EXTRA "${scripts}/postinst;${scripts}/prerm;${scripts}/postrm")
    math(EXPR priority "${priority} - 10")
  endforeach()
endif()
include(CPack)
