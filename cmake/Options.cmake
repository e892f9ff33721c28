# SPDX-License-Identifier: Apache-2.0
# What the build can be told, and what it looks for. An optional part is AUTO, ON or OFF; ON and missing
# is an error. telpher_summary() prints one line per component: built or not, and why.

option(TELPHER_WERROR "Treat warnings as errors" OFF)
option(TELPHER_FUZZ "Link the targets of tests/fuzz with libFuzzer (needs clang)" OFF)
set(TELPHER_SANITIZE "" CACHE STRING "Sanitizers for the whole build, e.g. address,undefined")

# telpher_part(<name> <option> <found> <missing text>): sets TELPHER_HAVE_<OPTION> and notes the reason.
function(telpher_part name option found missing)
  set(TELPHER_${option} AUTO CACHE STRING "${name}: AUTO, ON or OFF")
  set_property(CACHE TELPHER_${option} PROPERTY STRINGS AUTO ON OFF)
  set(want "${TELPHER_${option}}")
  set(have OFF)
  if(want STREQUAL "AUTO")
    if(found)
      set(have ON)
    endif()
    set(why "${missing}")
  elseif(want)
    if(NOT found)
      message(FATAL_ERROR "TELPHER_${option}=ON, but ${missing}")
    endif()
    set(have ON)
  else()
    set(why "TELPHER_${option}=OFF")
  endif()
  set(TELPHER_HAVE_${option} ${have} PARENT_SCOPE)
  if(have)
    set_property(GLOBAL APPEND PROPERTY TELPHER_SUMMARY "${name}: built")
  else()
    set_property(GLOBAL APPEND PROPERTY TELPHER_SUMMARY "${name}: NOT built, ${why}")
  endif()
endfunction()

function(telpher_summary)
  get_property(lines GLOBAL PROPERTY TELPHER_SUMMARY)
  message(STATUS "Telpher ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_C_COMPILER_ID} "
    "${CMAKE_C_COMPILER_VERSION}, sanitizers: ${TELPHER_SANITIZE}")
  foreach(line IN LISTS lines)
    message(STATUS "  ${line}")
  endforeach()
endfunction()

find_path(TELPHER_CL_INCLUDE CL/cl_icd.h)
mark_as_advanced(TELPHER_CL_INCLUDE)
pkg_check_modules(OPENCL QUIET IMPORTED_TARGET OpenCL)
pkg_check_modules(OPENSSL QUIET openssl>=3)
pkg_check_modules(UCX QUIET IMPORTED_TARGET ucx>=1.13)
pkg_check_modules(PMIX QUIET pmix)
pkg_check_modules(FFI QUIET IMPORTED_TARGET libffi)
pkg_check_modules(PNG QUIET IMPORTED_TARGET libpng)
if(BUILD_TESTING)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
endif()

telpher_part(icd ICD "${TELPHER_CL_INCLUDE}" "no CL/cl_icd.h (package opencl-headers)")
# telpherd, its executor and the room that talks to native OpenCL drivers
telpher_part(opencl-server OPENCL_SERVER "${TELPHER_CL_INCLUDE}"
  "no CL/cl.h (package opencl-headers)")
telpher_part(tls TLS "${OPENSSL_FOUND}" "no headers of OpenSSL 3 (package libssl-dev)")
# UCX's hooks into memory calls and the thread sanitizer's make each other crash.
if(TELPHER_SANITIZE MATCHES thread)
  set(UCX_FOUND OFF)
endif()
telpher_part(ucx UCX "${UCX_FOUND}"
  "no UCX from 1.13 on (package libucx-dev), or the thread sanitizer")
telpher_part(pmix PMIX "${PMIX_FOUND}" "no PMIx (package libpmix-dev)")
telpher_part(offload OFFLOAD "${FFI_FOUND}" "no libffi (package libffi-dev)")
telpher_part(bench BENCH ON "")
include(cmake/Mpi.cmake)
telpher_part(bench-openmpi BENCH_OPENMPI "${TELPHER_MPI_openmpi}"
  "no Open MPI (package libopenmpi-dev), or the thread sanitizer")
telpher_part(bench-mpich BENCH_MPICH "${TELPHER_MPI_mpich}" "no MPICH (package libmpich-dev), or the thread sanitizer")
telpher_part(examples EXAMPLES "${OPENCL_FOUND}" "no libOpenCL (package ocl-icd-opencl-dev)")
telpher_part(man MAN ON "")
string(COMPARE EQUAL "${CMAKE_SYSTEM_NAME}" Linux telpher_linux)
telpher_part(systemd-units SYSTEMD "${telpher_linux}" "not Linux")

if(BUILD_TESTING AND NOT CMOCKA_FOUND)
  message(FATAL_ERROR "tests need cmocka (package libcmocka-dev); -DBUILD_TESTING=OFF builds without")
endif()
if(TELPHER_FUZZ AND NOT CMAKE_C_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "TELPHER_FUZZ needs clang; use: cmake --preset fuzz")
endif()
if(BUILD_TESTING)
  set_property(GLOBAL APPEND PROPERTY TELPHER_SUMMARY "tests: built")
else()
  set_property(GLOBAL APPEND PROPERTY TELPHER_SUMMARY "tests: NOT built, BUILD_TESTING=OFF")
endif()
if(TELPHER_FUZZ)
  set_property(GLOBAL APPEND PROPERTY TELPHER_SUMMARY "fuzzers: built")
else()
  set_property(GLOBAL APPEND PROPERTY TELPHER_SUMMARY
    "fuzzers: NOT built, TELPHER_FUZZ=OFF (their corpora are replayed by the tests)")
endif()

# Flags are otherwise per target; a sanitizer must be in every object and every program or in none.
if(TELPHER_SANITIZE)
  add_compile_options(-fsanitize=${TELPHER_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TELPHER_SANITIZE})
endif()
