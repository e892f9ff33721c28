# SPDX-License-Identifier: Apache-2.0
# Static archives of libtelpher, -rma, -mdr, -offload-<mpi> and -opencl, each one object in which only public names are
# global: any of them link into one program, whatever their internal names. Installed with TELPHER_STATIC=ON; the tests
# build them anyway.
option(TELPHER_STATIC "Install static archives of the libraries, too" OFF)
set(telpher_static_all EXCLUDE_FROM_ALL)
if(TELPHER_STATIC OR BUILD_TESTING)
  set(telpher_static_all ALL)
endif()
add_custom_target(static-archives)

# telpher_static(<library> MAP <version script> OBJECTS <target>… [WHOLE <archive>…] [ARCHIVES <archive>…]
# [COMPONENT <c>]): lib<library>.a. All of WHOLE is in it, of ARCHIVES what the rest needs.
function(telpher_static library)
  cmake_parse_arguments(S "" "MAP;COMPONENT" "OBJECTS;WHOLE;ARCHIVES" ${ARGN})
  set(archive ${PROJECT_BINARY_DIR}/lib/lib${library}.a)
  set(inputs ${CMAKE_CURRENT_BINARY_DIR}/${library}-static.rsp)
  set(lines)
  set(depends)
  foreach(target IN LISTS S_OBJECTS)
    list(APPEND lines $<TARGET_OBJECTS:${target}>)
    list(APPEND depends $<TARGET_OBJECTS:${target}>)
  endforeach()
  set(option_WHOLE --whole-archive)
  set(option_ARCHIVES --no-whole-archive)
  foreach(kind IN ITEMS WHOLE ARCHIVES)
    list(APPEND lines ${option_${kind}} --start-group)
    foreach(target IN LISTS S_${kind})
      if(NOT TARGET ${target}) # an optional part
        continue()
      endif()
      list(APPEND lines $<TARGET_FILE:${target}>)
      list(APPEND depends ${target})
    endforeach()
    list(APPEND lines --end-group)
  endforeach()
  file(GENERATE OUTPUT ${inputs} CONTENT "$<JOIN:${lines},\n>\n")
  add_custom_command(OUTPUT ${archive}
    COMMAND ${CMAKE_COMMAND} -DARCHIVE=${archive} -DINPUTS=${inputs} -DMAP=${S_MAP}
      -DSHARED_MAP=${PROJECT_SOURCE_DIR}/src/telpher.map -DLD=${CMAKE_LINKER} -DOBJCOPY=${CMAKE_OBJCOPY}
      -DAR=${CMAKE_AR} -P ${PROJECT_SOURCE_DIR}/cmake/StaticArchive.cmake
    DEPENDS ${depends} ${inputs} ${S_MAP} ${PROJECT_SOURCE_DIR}/cmake/StaticArchive.cmake VERBATIM)
  add_custom_target(${library}-static ${telpher_static_all} DEPENDS ${archive})
  add_dependencies(static-archives ${library}-static)
  if(TELPHER_STATIC)
    install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${S_COMPONENT})
  endif()
endfunction()

set(rooms tp_transport_tcp tp_transport_tls tp_core tp_waist tp_wire tp_base)
telpher_static(telpher MAP ${PROJECT_SOURCE_DIR}/src/telpher.map COMPONENT Unspecified
  OBJECTS telpher_api tp_builtin tp_builtin_net tp_builtin_mem
  ARCHIVES tp_comm tp_rndv tp_transport_loop tp_transport_shm tp_transport_mpi tp_transport_ucx_load
    tp_device_host tp_device_sim tp_device_cuda tp_device_opencl ${rooms})
telpher_static(telpher-rma MAP ${PROJECT_SOURCE_DIR}/src/rma/telpher-rma.map COMPONENT Unspecified
  WHOLE tp_rma ARCHIVES tp_base)
telpher_static(telpher-mdr MAP ${PROJECT_SOURCE_DIR}/src/mdr/telpher-mdr.map COMPONENT Unspecified
  WHOLE tp_mdr ARCHIVES tp_base)
if(TARGET tp_icd)
  telpher_static(telpher-opencl MAP ${PROJECT_SOURCE_DIR}/src/icd/telpher-opencl.map COMPONENT Unspecified
    OBJECTS tp_builtin WHOLE tp_icd ARCHIVES ${rooms})
endif()
if(TELPHER_HAVE_OFFLOAD)
  foreach(mpi IN LISTS TELPHER_MPIS)
    telpher_static(telpher-offload-${mpi} MAP ${PROJECT_BINARY_DIR}/src/offload/${mpi}/telpher-offload.map
      COMPONENT ${mpi} OBJECTS tp_offload_objects_${mpi} WHOLE tp_offload_core ARCHIVES tp_base)
    add_dependencies(telpher-offload-${mpi}-static telpher-offload-${mpi}) # makes the map
  endforeach()
endif()
