# SPDX-License-Identifier: Apache-2.0
# cmake -DARCHIVE=… -DINPUTS=… -DMAP=… -DSHARED_MAP=… -DLD=… -DOBJCOPY=… -DAR=… -P StaticArchive.cmake
# Links what the file INPUTS names into one object, makes all but the public names of the version script MAP local, and
# puts the object into ARCHIVE. Public names that libtelpher has as well (SHARED_MAP) are weak in other libraries.
cmake_policy(VERSION 3.24)

# public_names(<map> <variable>): what stands between `global:` and `local:`.
function(public_names map ret_names)
  file(READ ${map} text)
  string(REGEX REPLACE "/\\*[^*]*\\*/" "" text "${text}")
  string(REGEX REPLACE ".*global:(.*)local:.*" "\\1" text "${text}")
  string(REGEX MATCHALL "[A-Za-z_][A-Za-z0-9_]*" names "${text}")
  set(${ret_names} ${names} PARENT_SCOPE)
endfunction()

get_filename_component(name ${INPUTS} NAME_WLE)
get_filename_component(folder ${INPUTS} DIRECTORY)
set(object ${folder}/${name}.o)
public_names(${MAP} names)
public_names(${SHARED_MAP} shared)
if(NOT names)
  message(FATAL_ERROR "${MAP} names no symbol")
endif()
set(options)
foreach(symbol IN LISTS names)
  list(APPEND options -u ${symbol})
endforeach()
execute_process(COMMAND ${LD} -r ${options} -o ${object} @${INPUTS} COMMAND_ERROR_IS_FATAL ANY)

list(JOIN names "\n" text)
file(WRITE ${object}.names "${text}\n")
set(options --keep-global-symbols=${object}.names)
if(NOT MAP STREQUAL SHARED_MAP)
  foreach(symbol IN LISTS shared)
    if(symbol IN_LIST names)
      list(APPEND options --weaken-symbol=${symbol})
    endif()
  endforeach()
endif()
execute_process(COMMAND ${OBJCOPY} ${options} ${object} COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE ${ARCHIVE})
execute_process(COMMAND ${AR} rcs ${ARCHIVE} ${object} COMMAND_ERROR_IS_FATAL ANY)
