# SPDX-License-Identifier: Apache-2.0
# What is installed where. A target that is not built is left out.
include(CMakePackageConfigHelpers)

# The build folder is laid out like an installation, so that programs find each other the same way in both:
# ../libexec/telpher and ../lib from where they are.
foreach(place IN ITEMS telpher:bin telpherd:bin telpher-bench:bin telpher-executor:libexec/telpher
    telpher-handshake:libexec/telpher
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
  install(TARGETS telpher-executor telpher-handshake RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/telpher)
endif()

# Before 1.0 each minor version is a soname of its own: libtelpher.so.0.1.
foreach(library IN ITEMS telpher_api telpher-opencl)
  if(TARGET ${library})
    set_target_properties(${library} PROPERTIES
      VERSION ${PROJECT_VERSION} SOVERSION ${TELPHER_SONAME_VERSION})
  endif()
endforeach()

if(TARGET telpher_api)
  set_target_properties(telpher_api PROPERTIES EXPORT_NAME telpher)
  install(TARGETS telpher_api EXPORT telpher
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  install(DIRECTORY include/telpher ${PROJECT_BINARY_DIR}/include/telpher
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
  set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/telpher)
  install(EXPORT telpher FILE telpherTargets.cmake NAMESPACE telpher:: DESTINATION ${package_dir})
  configure_package_config_file(cmake/telpherConfig.cmake.in
    ${PROJECT_BINARY_DIR}/telpherConfig.cmake INSTALL_DESTINATION ${package_dir})
  write_basic_package_version_file(${PROJECT_BINARY_DIR}/telpherConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES ${PROJECT_BINARY_DIR}/telpherConfig.cmake
    ${PROJECT_BINARY_DIR}/telpherConfigVersion.cmake DESTINATION ${package_dir})
  configure_file(cmake/telpher.pc.in telpher.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/telpher.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

# The loader dlopens what the .icd file says; a full path needs no ldconfig. Nobody links to the ICD, so
# it gets no plain libtelpher-opencl.so.
if(TARGET telpher-opencl)
  install(TARGETS telpher-opencl LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_SKIP)
  file(WRITE ${PROJECT_BINARY_DIR}/telpher.icd
    "${CMAKE_INSTALL_FULL_LIBDIR}/libtelpher-opencl.so.${TELPHER_SONAME_VERSION}\n")
  install(FILES ${PROJECT_BINARY_DIR}/telpher.icd
    DESTINATION ${TELPHER_SYSCONFDIR}/OpenCL/vendors)
endif()

if(TARGET telpherd)
  install(FILES packaging/telpherd.conf DESTINATION ${TELPHER_SYSCONFDIR}/telpher)
  if(TELPHER_HAVE_SYSTEMD)
    configure_file(packaging/systemd/telpherd.service.in telpherd.service @ONLY)
    install(FILES ${PROJECT_BINARY_DIR}/telpherd.service DESTINATION lib/systemd/system)
    install(FILES packaging/systemd/telpher.sysusers DESTINATION lib/sysusers.d RENAME telpher.conf)
    install(FILES packaging/systemd/telpher.tmpfiles DESTINATION lib/tmpfiles.d RENAME telpher.conf)
  endif()
endif()

if(TELPHER_HAVE_MAN)
  foreach(page IN ITEMS telpher.1 telpher-worker.1 telpher-worker-cc.1 telpher-bench.1 telpherd.8 telpherd.conf.5 telpher-opencl.7)
    if(EXISTS ${PROJECT_SOURCE_DIR}/docs/man/${page})
      string(REGEX MATCH "[0-9]$" section ${page})
      install(FILES docs/man/${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    endif()
  endforeach()
endif()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

# make deb: telpher, and for each MPI telpher-<mpi> with what is linked with that MPI, so that nobody must install both.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME telpher)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_VENDOR Telpher)
set(CPACK_PACKAGE_CONTACT "The Telpher authors <telpher@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_STRIP_FILES ON)
set(CPACK_SET_DESTDIR ON) # files of /etc have absolute destinations
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
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_RECOMMENDS "ocl-icd-libopencl1 | libopencl1")
set(CPACK_DEBIAN_UNSPECIFIED_PACKAGE_SUGGESTS "pocl-opencl-icd, telpher-openmpi, telpher-mpich")
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
