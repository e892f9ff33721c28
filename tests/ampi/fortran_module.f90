! SPDX-License-Identifier: Apache-2.0
! Calls of the module mpi against results that each rank computes itself. Any MPI runs it.
! usage: telpher launch -n N -- ampi_fortran_module [+vp M]
module counters
  implicit none
  integer :: failures = 0, rank = -1, size = 0
contains
  subroutine expect(ok, what)
    logical, intent(in) :: ok
    character(len=*), intent(in) :: what
    if (.not. ok) then
      failures = failures + 1
      print *, 'rank', rank, 'of', size, ': ', what, ': FAILED'
    end if
  end subroutine

  ! An operation of the program: the sum of absolute values.
  subroutine sum_absolute(in, inout, length, type)
    integer, intent(in) :: length, type
    integer, intent(in) :: in(length)
    integer, intent(inout) :: inout(length)
    inout = abs(in) + abs(inout)
    if (type == 0) inout = -1
  end subroutine

  subroutine copy_attribute(object, keyval, extra, in, out, flag, ierror)
    use mpi, only: MPI_ADDRESS_KIND
    integer :: object, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: extra, in, out
    logical :: flag
    out = in + extra
    flag = object /= keyval
    ierror = 0
  end subroutine

  subroutine delete_attribute(object, keyval, value, extra, ierror)
    use mpi, only: MPI_ADDRESS_KIND
    integer :: object, keyval, ierror
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    if (object == keyval .or. value < extra) failures = failures + 1
    ierror = 0
  end subroutine
end module

program fortran_module
  use, intrinsic :: iso_c_binding, only: c_f_pointer, c_int, c_ptr
  use mpi
  use counters
  implicit none
  integer :: ierror, all, before, after

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  before = modulo(rank - 1, size)
  after = modulo(rank + 1, size)
  call test_messages()
  call test_requests()
  call test_collectives()
  call test_types()
  call test_texts()
  call test_attributes()
  call test_grid()
  call test_window()
  call MPI_Allreduce(failures, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0) print *, all, 'failures'
  call MPI_Finalize(ierror)
  if (all /= 0) stop 1
  stop

contains

  subroutine test_messages()
    double precision :: out(1000), in(1000)
    integer :: status(MPI_STATUS_SIZE), count, i
    out = [(rank * 1000d0 + i, i = 1, 1000)]
    in = 0
    call MPI_Sendrecv(out, 1000, MPI_DOUBLE_PRECISION, after, 7, in, 1000, MPI_DOUBLE_PRECISION, before, 7, &
                      MPI_COMM_WORLD, status, ierror)
    call expect(all_near(in, before), 'sendrecv')
    call expect(status(MPI_SOURCE) == before .and. status(MPI_TAG) == 7, 'status')
    call MPI_Get_count(status, MPI_DOUBLE_PRECISION, count, ierror)
    call expect(count == 1000, 'count')
    call MPI_Sendrecv(out, 1, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 7, in, 1, MPI_DOUBLE_PRECISION, MPI_PROC_NULL, 7, &
                      MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call expect(all_near(in, before), 'null process')
  end subroutine

  logical function all_near(at, from)
    double precision, intent(in) :: at(1000)
    integer, intent(in) :: from
    integer :: i
    all_near = all_of([(at(i) == from * 1000d0 + i, i = 1, 1000)])
  end function

  logical function all_of(these)
    logical, intent(in) :: these(:)
    all_of = count(these) == ubound(these, 1)
  end function

  subroutine test_requests()
    integer :: requests(2), statuses(MPI_STATUS_SIZE, 2), in, index, flag_count, indices(2)
    logical :: flag
    in = -1
    call MPI_Irecv(in, 1, MPI_INTEGER, before, 1, MPI_COMM_WORLD, requests(1), ierror)
    call MPI_Isend(rank, 1, MPI_INTEGER, after, 1, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Waitall(2, requests, statuses, ierror)
    call expect(in == before .and. statuses(MPI_SOURCE, 1) == before, 'waitall')
    requests(1) = MPI_REQUEST_NULL
    call MPI_Irecv(in, 1, MPI_INTEGER, before, 2, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Send(rank * 2, 1, MPI_INTEGER, after, 2, MPI_COMM_WORLD, ierror)
    call MPI_Waitany(2, requests, index, MPI_STATUS_IGNORE, ierror)
    call expect(in == before * 2 .and. index == 2, 'waitany counts from one')
    call MPI_Testany(2, requests, index, flag, MPI_STATUS_IGNORE, ierror)
    call expect(flag .and. index == MPI_UNDEFINED, 'testany of nothing')
    call MPI_Irecv(in, 1, MPI_INTEGER, before, 3, MPI_COMM_WORLD, requests(2), ierror)
    call MPI_Send(rank * 3, 1, MPI_INTEGER, after, 3, MPI_COMM_WORLD, ierror)
    call MPI_Waitsome(2, requests, flag_count, indices, MPI_STATUSES_IGNORE, ierror)
    call expect(flag_count == 1 .and. indices(1) == 2, 'waitsome counts from one')
  end subroutine

  subroutine test_collectives()
    integer :: in(3), operation
    logical :: any_rank
    real :: near(2)
    in = [rank, rank + 1, -1]
    call MPI_Allreduce(MPI_IN_PLACE, in, 2, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
    call expect(in(1) == size * (size - 1) / 2 .and. in(2) == size * (size + 1) / 2, 'in place')
    call MPI_Op_create(sum_absolute, .true., operation, ierror)
    call MPI_Allreduce([-rank], in, 1, MPI_INTEGER, operation, MPI_COMM_WORLD, ierror)
    call expect(in(1) == size * (size - 1) / 2, 'operation of the program')
    call MPI_Op_free(operation, ierror)
    call expect(operation == MPI_OP_NULL, 'freed operation')
    call MPI_Allreduce(rank == size - 1, any_rank, 1, MPI_LOGICAL, MPI_LOR, MPI_COMM_WORLD, ierror)
    call expect(any_rank, 'logical or')
    call MPI_Allreduce([real(modulo(rank * 7, size)), real(rank)], near, 1, MPI_2REAL, MPI_MAXLOC, MPI_COMM_WORLD, ierror)
    call expect(modulo(nint(near(2)) * 7, size) == nint(near(1)), 'maximum and its place')
  end subroutine

  ! A row of a matrix, and memory named from MPI_BOTTOM.
  subroutine test_types()
    integer :: matrix(4, 5), row, absolute, i, got(5)
    integer(kind=MPI_ADDRESS_KIND) :: address, lb, extent
    matrix = reshape([(rank * 100 + i, i = 1, 20)], [4, 5])
    call MPI_Type_vector(5, 1, 4, MPI_INTEGER, row, ierror)
    call MPI_Type_commit(row, ierror)
    call MPI_Sendrecv(matrix(2, 1), 1, row, after, 5, got, 5, MPI_INTEGER, before, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE, &
                      ierror)
    call expect(all_of(got == [(before * 100 + 2 + 4 * i, i = 0, 4)]), 'row')
    call MPI_Type_get_extent(row, lb, extent, ierror)
    call expect(lb == 0 .and. extent == 17 * 4, 'extent')
    call MPI_Get_address(matrix, address, ierror)
    call MPI_Type_create_hindexed(1, [20], [address], MPI_INTEGER, absolute, ierror)
    call MPI_Type_commit(absolute, ierror)
    if (rank == 0) matrix = 5
    call MPI_Bcast(MPI_BOTTOM, 1, absolute, 0, MPI_COMM_WORLD, ierror)
    call expect(all_of(reshape(matrix == 5, [20])), 'from the bottom')
    call MPI_Type_free(absolute, ierror)
    call MPI_Type_free(row, ierror)
  end subroutine

  subroutine test_texts()
    character(len=20) :: name, value
    character(len=MPI_MAX_ERROR_STRING) :: text
    integer :: communicator, length, info
    logical :: flag
    call MPI_Comm_dup(MPI_COMM_WORLD, communicator, ierror)
    call MPI_Comm_set_name(communicator, 'a name   ', ierror)
    name = 'xxxxxxxxxxxxxxxxxxxx'
    call MPI_Comm_get_name(communicator, name, length, ierror)
    call expect(name == 'a name' .and. length == 6, 'name')
    call MPI_Comm_free(communicator, ierror)
    call MPI_Info_create(info, ierror)
    call MPI_Info_set(info, 'key ', 'some value', ierror)
    call MPI_Info_get(info, 'key', 20, value, flag, ierror)
    call expect(flag .and. value == 'some value', 'info')
    call MPI_Info_free(info, ierror)
    call MPI_Error_string(MPI_ERR_RANK, text, length, ierror)
    call expect(length > 5 .and. text(length + 1:) == ' ', 'text of an error')
  end subroutine

  subroutine test_attributes()
    integer(kind=MPI_ADDRESS_KIND) :: value
    integer :: keyval, copy
    logical :: flag
    interface
      integer(c_int) function get_attribute_in_c(comm, keyval, value, flag) bind(c, name='PMPI_Comm_get_attr')
        import
        integer(c_int), value :: comm, keyval
        type(c_ptr) :: value
        integer(c_int) :: flag
      end function
    end interface
    type(c_ptr) :: address
    integer(c_int) :: found
    integer(kind=MPI_ADDRESS_KIND), pointer :: at
    call MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierror)
    call expect(flag .and. value >= 32767, 'highest tag')
    call MPI_Comm_create_keyval(copy_attribute, delete_attribute, keyval, 3_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_set_attr(MPI_COMM_SELF, keyval, 40_MPI_ADDRESS_KIND, ierror)
    call MPI_Comm_dup(MPI_COMM_SELF, copy, ierror)
    call MPI_Comm_get_attr(copy, keyval, value, flag, ierror)
    call expect(flag .and. value == 43, 'copied attribute')
    ierror = get_attribute_in_c(copy, keyval, address, found)
    call c_f_pointer(address, at)
    call expect(found == 1 .and. at == 43, 'attribute read in C')
    call MPI_Comm_free(copy, ierror)
    call MPI_Comm_delete_attr(MPI_COMM_SELF, keyval, ierror)
    call MPI_Comm_get_attr(MPI_COMM_SELF, keyval, value, flag, ierror)
    call expect(.not. flag, 'deleted attribute')
    call MPI_Comm_free_keyval(keyval, ierror)
  end subroutine

  subroutine test_grid()
    integer :: grid, dims(1), coords(1), source, dest, kind, graph
    logical :: periods(1), weighted
    dims = size
    call MPI_Cart_create(MPI_COMM_WORLD, 1, dims, [.true.], .false., grid, ierror)
    call MPI_Cart_shift(grid, 0, 1, source, dest, ierror)
    call expect(source == before .and. dest == after, 'shift')
    call MPI_Cart_get(grid, 1, dims, periods, coords, ierror)
    call expect(periods(1) .and. dims(1) == size .and. coords(1) == rank, 'grid')
    call MPI_Comm_free(grid, ierror)
    call MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, [before], MPI_UNWEIGHTED, 1, [after], MPI_UNWEIGHTED, &
                                        MPI_INFO_NULL, .false., graph, ierror)
    call MPI_Dist_graph_neighbors_count(graph, source, dest, weighted, ierror)
    call MPI_Topo_test(graph, kind, ierror)
    call expect(source == 1 .and. dest == 1 .and. .not. weighted .and. kind == MPI_DIST_GRAPH, 'graph')
    call MPI_Comm_free(graph, ierror)
  end subroutine

  subroutine test_window()
    integer :: part(2), win
    integer(kind=MPI_ADDRESS_KIND) :: value
    logical :: flag
    part = -1
    call MPI_Win_create(part, 8_MPI_ADDRESS_KIND, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
    call MPI_Win_fence(0, win, ierror)
    call MPI_Put([rank], 1, MPI_INTEGER, after, 1_MPI_ADDRESS_KIND, 1, MPI_INTEGER, win, ierror)
    call MPI_Win_fence(0, win, ierror)
    call expect(part(1) == -1 .and. part(2) == before, 'put')
    call MPI_Win_get_attr(win, MPI_WIN_SIZE, value, flag, ierror)
    call expect(flag .and. value == 8, 'size of a window')
    call MPI_Win_free(win, ierror)
  end subroutine
end program
