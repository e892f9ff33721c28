# SPDX-License-Identifier: Apache-2.0
"""Numbers of entries, and what messages begin with."""
import struct

OBJECT_CLASS, MANAGER_CLASS, MOBILE_CLASS = 0, 1, 2
CALL, CHANNEL, RESUME = 0, 1, 2  # entries of objects; the last of those that move
SYNC, END = -1, -2  # instead of a process to move to: the one that the balancer chooses; none, the object ends
START, QUIET_DONE, FUTURE, REDUCE, QUIET, REMOTE = range(6)  # entries of managers
NO_FUTURE = (0, 0)
HIDDEN = ("_telpher_result", "_telpher_nothing", "_telpher_apply")  # the first methods of each class
RESULT, NOTHING, APPLY = range(len(HIDDEN))
# With the number of a future that collects the results of several elements: the index comes along, or no result.
WITH_INDEX, NO_RESULT = 1 << 63, 1 << 62
FUTURE_NUMBER = NO_RESULT - 1

# Parameters: u8 number of buffers and a kind (u8) for each; the head, which depends on the entry; the pickle,
# unless the first byte has IN_BUFFER: then the pickle is the last buffer. Kinds with IS_ARGUMENT are device
# buffers, arguments themselves; the others belong to the pickle. A message of a channel with LONE is one array: its
# description instead of the pickle, and a buffer, or with INLINE the length of the description (u16) before it and
# the content after it.

CALL_HEAD = struct.Struct("<HxxIQ")  # method, future: process, number
CHANNEL_HEAD = struct.Struct("<QiiiII")  # sender: array, index; number of the channel; sequence
CHANNEL_NAME = CHANNEL_HEAD.size - 4  # bytes before the sequence
FUTURE_HEAD = struct.Struct("<QI")  # number, 1: the value is an exception's text
REDUCE_HEAD = struct.Struct("<QII")  # array, number of the reduction, elements in it
IN_BUFFER, LONE, INLINE, COUNT = 0x80, 0x40, 0x20, 0x0F
IS_ARGUMENT = 0x40
PLAIN, WAITS, ASYNC = range(3)  # how a method runs
CONDITIONAL = 4  # and in addition: it has @when
OF_SECTION = 1 << 63  # with the number of a section where another number is an array's
