! SPDX-License-Identifier: Apache-2.0
!
! usage: mpirun -np P main [WORKER] : -np C worker
! A Fortran program that calls kernels of workers (kernel.c): one and its result, several at once,
! and some that wait for each other.
program main
    use, intrinsic :: iso_c_binding
    use mpi
    use telpher_offload
    implicit none
    integer, parameter :: calls = 3
    integer :: world, inter, ierror, status, rank, i
    integer(c_int), target :: numbers(calls) = [10, 20, 30]
    real(c_double), target :: factor = 1.5d0
    type(c_ptr) :: args(2), all_args(2, calls)
    integer(c_int) :: sizes(2), all_sizes(2, calls)
    type(MPIX_Kernel_request) :: request, requests(calls)
    type(MPIX_Kernel_status) :: ended, all_ended(calls)
    character(len=256) :: program, text
    logical :: done

    call MPIX_Kernel_init(ierror)
    call MPIX_Kernel_world(world)
    call MPI_Comm_rank(world, rank, ierror)
    call get_command_argument(1, program)
    call telpher_offload_start(program, 0, 0, world, inter, text, status)
    if (status /= 0) then
        print *, 'start: ', trim(text)
        call MPI_Abort(world, 1, ierror)
    end if

    args = [c_loc(numbers(1)), c_loc(factor)]
    sizes = [4, 8]
    call MPIX_Kernel_icall('scaled', 2, args, sizes, 0, world, inter, request, ierror)
    call MPIX_Kernel_wait(request, ended, ierror)
    if (ierror /= MPI_SUCCESS .or. ended%result /= 15) error stop 'scaled'

    do i = 1, calls
        all_args(:, i) = [c_loc(numbers(i)), c_null_ptr]
        all_sizes(:, i) = [4, 0]
    end do
    call MPIX_Kernel_call_multiple(calls, [character(len=8) :: 'add', 'add', 'add'], [1, 1, 1], &
        all_args, all_sizes, 0, world, inter, ierror)
    call MPIX_Kernel_call('add', 1, args, sizes, 0, world, inter, ierror)
    do i = 1, calls
        call MPIX_Kernel_icall('total', 0, args, sizes, 0, world, inter, requests(i), ierror)
    end do
    call MPIX_Kernel_after(1, requests, world, inter, ierror)
    call MPIX_Kernel_waitall(calls - 1, requests, all_ended, ierror)
    done = .false.
    do while (.not. done)
        call MPIX_Kernel_test(requests(calls), done, all_ended(calls), ierror)
    end do
    if (any(all_ended%result /= 70)) error stop 'total'

    call MPIX_Kernel_call('', 0, args, sizes, 0, world, inter, ierror)
    if (rank == 0) print '(a)', 'Fortran: good'
    call MPIX_Kernel_finalize(ierror)
end program
