# SPDX-License-Identifier: Apache-2.0
# Which MPI implementations there are headers of. Only telpher-bench's modules are compiled with them, one for each,
# since what is behind the names of mpi.h differs; nothing is linked with an MPI.
include(CheckCSourceCompiles)

# telpher_find_mpi(<name> <macro of its mpi.h> <library> <compiler>…): sets TELPHER_MPI_<NAME>_INCLUDES and _LIBRARY,
# and TELPHER_MPI_<NAME> if it is there.
function(telpher_find_mpi name macro library)
  set(TELPHER_MPI_${name} OFF PARENT_SCOPE)
  find_program(TELPHER_MPICC_${name} NAMES ${ARGN})
  mark_as_advanced(TELPHER_MPICC_${name})
  if(CMAKE_CROSSCOMPILING OR NOT TELPHER_MPICC_${name})
    return()
  endif()
  execute_process(COMMAND ${TELPHER_MPICC_${name}} -show OUTPUT_VARIABLE shown ERROR_QUIET)
  foreach(letter IN ITEMS I L)
    string(REGEX MATCHALL "-${letter}[^ \n]+" ${letter} "${shown}")
    list(TRANSFORM ${letter} REPLACE "^-${letter}" "")
  endforeach()
  set(CMAKE_REQUIRED_INCLUDES ${I})
  check_c_source_compiles("#include <mpi.h>\n#ifndef ${macro}\n#error another MPI\n#endif\nint main(void) { return 0; }"
    TELPHER_MPI_IS_${name})
  unset(found CACHE)
  find_library(found NAMES ${library} HINTS ${L} NO_CACHE)
  if(TELPHER_MPI_IS_${name} AND found)
    set(TELPHER_MPI_${name} ON PARENT_SCOPE)
    set(TELPHER_MPI_${name}_INCLUDES ${I} PARENT_SCOPE)
    set(TELPHER_MPI_${name}_LIBRARY ${found} PARENT_SCOPE)
  endif()
endfunction()

# telpher_mpi_preprocess(<name> <file>): a rule that writes what its mpi.h declares, for generators (cmake/mpi_header.py).
function(telpher_mpi_preprocess name file)
  cmake_path(GET file PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  file(WRITE ${folder}/header.c "#include <mpi.h>\n")
  list(TRANSFORM TELPHER_MPI_${name}_INCLUDES PREPEND -I OUTPUT_VARIABLE includes)
  add_custom_command(OUTPUT ${file} COMMAND ${CMAKE_C_COMPILER} ${includes} -E ${folder}/header.c -o ${file} VERBATIM)
endfunction()

telpher_find_mpi(openmpi OPEN_MPI mpi mpicc.openmpi mpicc)
telpher_find_mpi(mpich MPICH_VERSION mpich mpicc.mpich mpicc)
# What MPI libraries do behind their calls is no business of the thread sanitizer.
if(TELPHER_SANITIZE MATCHES thread)
  set(TELPHER_MPI_openmpi OFF)
  set(TELPHER_MPI_mpich OFF)
endif()

# TELPHER_MPIRUN_<name> starts programs, with the options _OPTIONS_<name>; TELPHER_MPIS_RUN: those that have headers, too.
set(TELPHER_MPIS_RUN)
set(TELPHER_MPIRUN_OPTIONS_openmpi --oversubscribe)
set(TELPHER_MPIRUN_OPTIONS_mpich)
foreach(mpi IN ITEMS openmpi mpich)
  find_program(TELPHER_MPIRUN_${mpi} NAMES mpirun.${mpi})
  mark_as_advanced(TELPHER_MPIRUN_${mpi})
  if(TELPHER_MPI_${mpi} AND TELPHER_MPIRUN_${mpi})
    list(APPEND TELPHER_MPIS_RUN ${mpi})
  endif()
endforeach()
