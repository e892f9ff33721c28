! SPDX-License-Identifier: Apache-2.0
! mpi_f08: handles as types, statuses, missing error arguments, requests of the program, sizes.
module numbers
  use mpi_f08
  implicit none
  integer :: rank, nranks, failures = 0
contains
  subroutine expect(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (.not. condition) then
      print *, "rank", rank, ":", what, ": FAILED"
      failures = failures + 1
    end if
  end subroutine

  subroutine copy_attribute(comm, key, extra, in, out, flag, ierror)
    type(MPI_Comm) :: comm
    integer :: key, ierror
    integer(MPI_ADDRESS_KIND) :: extra, in, out
    logical :: flag
    out = in + extra
    flag = .true.
    ierror = MPI_SUCCESS
  end subroutine

  subroutine delete_attribute(comm, key, value, extra, ierror)
    type(MPI_Comm) :: comm
    integer :: key, ierror
    integer(MPI_ADDRESS_KIND) :: value, extra
    ierror = MPI_SUCCESS
  end subroutine

  subroutine query(extra, status, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    type(MPI_Status) :: status
    integer :: ierror
    call MPI_Status_set_elements(status, MPI_INTEGER, int(extra))
    call MPI_Status_set_cancelled(status, .false.)
    status%MPI_SOURCE = MPI_UNDEFINED
    status%MPI_TAG = 17
    ierror = MPI_SUCCESS
  end subroutine

  subroutine release(extra, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: ierror
    extra = -1
    ierror = MPI_SUCCESS
  end subroutine

  subroutine cancel(extra, complete, ierror)
    integer(MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierror
    ierror = MPI_SUCCESS
  end subroutine
end module

program fortran_f08
  use numbers
  implicit none
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks)
  call messages()
  call collectives()
  call attributes()
  call requests()
  call sizes()
  call partitions()
  call MPI_Finalize()
  if (failures /= 0) error stop 1
contains
  subroutine messages()
    type(MPI_Status) :: status, statuses(2)
    type(MPI_Request) :: both(2)
    integer :: to, from, sent(4), got(4), count, index, error
    character(len=MPI_MAX_ERROR_STRING) :: text
    to = mod(rank + 1, nranks)
    from = mod(rank + nranks - 1, nranks)
    sent = rank
    call MPI_Irecv(got, 4, MPI_INTEGER, from, 8, MPI_COMM_WORLD, both(1))
    call MPI_Isend(sent, 4, MPI_INTEGER, to, 8, MPI_COMM_WORLD, both(2))
    call MPI_Waitall(2, both, statuses)
    call expect(all(got == from), "a message arrives")
    call expect(statuses(1)%MPI_SOURCE == from .and. statuses(1)%MPI_TAG == 8, "the status tells its source")
    call MPI_Get_count(statuses(1), MPI_INTEGER, count)
    call expect(count == 4, "the status tells its length")
    call expect(both(1) == MPI_REQUEST_NULL .and. .not. both(2) /= MPI_REQUEST_NULL, "requests are null after their end")
    call MPI_Sendrecv(sent, 1, MPI_INTEGER, to, 1, got, 1, MPI_INTEGER, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Irecv(got, 4, MPI_INTEGER, from, 9, comm=MPI_COMM_WORLD, request=both(1), ierror=error)
    call MPI_Send(sent, 4, MPI_INTEGER, to, 9, MPI_COMM_WORLD)
    both(2) = MPI_REQUEST_NULL
    call MPI_Waitany(2, both, index, status)
    call expect(index == 1 .and. status%MPI_TAG == 9, "numbers of requests begin at 1")
    call MPI_Waitall(2, both, MPI_STATUSES_IGNORE)
    call MPI_Error_string(MPI_ERR_TAG, text, count)
    call expect(count > 0, "an error has a text")
  end subroutine

  subroutine collectives()
    integer :: sums(2), all(nranks), i
    type(MPI_Comm) :: half
    type(MPI_Group) :: group
    real(8) :: top
    sums = [rank, 1]
    call MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call expect(sums(1) == nranks * (nranks - 1) / 2 .and. sums(2) == nranks, "a sum in place")
    call MPI_Allgather(sendbuf=rank, sendcount=1, sendtype=MPI_INTEGER, recvbuf=all, recvcount=1, recvtype=MPI_INTEGER, &
                       comm=MPI_COMM_WORLD)
    call expect(all(nranks) == nranks - 1, "arguments have the names of the standard")
    top = rank
    call MPI_Bcast(top, 1, MPI_DOUBLE_PRECISION, nranks - 1, MPI_COMM_WORLD)
    call expect(top == nranks - 1, "a broadcast")
    call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half)
    call MPI_Comm_size(half, i)
    call expect(i == (nranks + 1 - mod(rank, 2)) / 2, "halves of the world")
    call MPI_Comm_group(half, group)
    call MPI_Group_size(group, sums(1))
    call expect(sums(1) == i, "the group of a communicator")
    call MPI_Group_free(group)
    call MPI_Comm_free(half)
    call expect(half == MPI_COMM_NULL, "a freed communicator is null")
  end subroutine

  subroutine attributes()
    type(MPI_Comm) :: copy
    integer :: key
    integer(MPI_ADDRESS_KIND) :: value
    logical :: flag
    call MPI_Comm_create_keyval(copy_attribute, delete_attribute, key, 5_MPI_ADDRESS_KIND)
    call MPI_Comm_set_attr(MPI_COMM_SELF, key, 12345678901_MPI_ADDRESS_KIND)
    call MPI_Comm_dup(MPI_COMM_SELF, copy)
    call MPI_Comm_get_attr(copy, key, value, flag)
    call expect(flag .and. value == 12345678906_MPI_ADDRESS_KIND, "an attribute is copied")
    call MPI_Comm_free(copy)
    call MPI_Comm_delete_attr(MPI_COMM_SELF, key)
    call MPI_Comm_free_keyval(key)
  end subroutine

  subroutine requests()
    type(MPI_Request) :: request
    type(MPI_Status) :: status
    integer(MPI_ADDRESS_KIND) :: extra
    integer :: count
    logical :: flag
    extra = 3
    call MPI_Grequest_start(query, release, cancel, extra, request)
    call MPI_Test(request, flag, status)
    call expect(.not. flag, "the program has not ended its request")
    call MPI_Grequest_complete(request)
    call MPI_Wait(request, status)
    call MPI_Get_count(status, MPI_INTEGER, count)
    call expect(count == 3 .and. status%MPI_TAG == 17, "a request of the program has its status")
    call MPI_F_sync_reg(extra)
    call expect(extra == -1, "a request of the program is released")
  end subroutine

  subroutine sizes()
    integer :: n
    real(8) :: matrix(2, 3)
    complex :: value
    logical(1) :: flag
    type(MPI_Datatype) :: kind
    call MPI_Sizeof(matrix, n)
    call expect(n == 8, "size of real(8)")
    call MPI_Sizeof(value, n)
    call expect(n == 8, "size of complex")
    call MPI_Sizeof(flag, n)
    call expect(n == 1, "size of logical(1)")
    call MPI_Type_create_f90_real(15, 307, kind)
    call MPI_Type_size(kind, n)
    call expect(n == 8 .and. kind /= MPI_REAL8, "a type by its precision")
  end subroutine

  subroutine partitions()
    type(MPI_Request) :: both(2)
    integer :: out(6), in(6), i
    logical :: flag
    out = [(10 * rank + i, i = 1, 6)]
    call MPI_Precv_init(in, 2, 3_MPI_COUNT_KIND, MPI_INTEGER, mod(rank + nranks - 1, nranks), 4, MPI_COMM_WORLD, &
                        MPI_INFO_NULL, both(1))
    call MPI_Psend_init(out, 3, 2_MPI_COUNT_KIND, MPI_INTEGER, mod(rank + 1, nranks), 4, MPI_COMM_WORLD, MPI_INFO_NULL, both(2))
    call MPI_Startall(2, both)
    call MPI_Pready_list(2, [2, 0], both(2))
    call MPI_Pready(1, both(2))
    call MPI_Waitall(2, both, MPI_STATUSES_IGNORE)
    call MPI_Parrived(both(1), 1, flag)
    call expect(flag .and. in(6) == 10 * mod(rank + nranks - 1, nranks) + 6, "partitions arrive")
    call MPI_Request_free(both(1))
    call MPI_Request_free(both(2))
  end subroutine
end program
