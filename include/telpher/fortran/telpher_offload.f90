! SPDX-License-Identifier: Apache-2.0
!
! telpher/offload.h for Fortran: compile this file with your program, by the Fortran compiler of
! the MPI that libtelpher-offload is for. Communicators are MPI's integer handles (module mpi,
! mpif.h; of mpi_f08, comm%MPI_VAL). Arguments are given by c_loc(), their sizes in bytes.
!
! Where workers come with the launch, begin with MPIX_Kernel_init() and end with
! MPIX_Kernel_finalize() in the place of MPI_Init() and MPI_Finalize(), which do not tell the
! library of themselves in every MPI; MPIX_Kernel_world() then gives the program's own processes,
! in the place of MPI_COMM_WORLD.
module telpher_offload
    use, intrinsic :: iso_c_binding
    implicit none
    private
    public :: MPIX_Kernel_init, MPIX_Kernel_finalize, MPIX_Kernel_world, telpher_offload_start
    public :: MPIX_Kernel_call, MPIX_Kernel_icall, MPIX_Kernel_call_multiple, MPIX_Kernel_after
    public :: MPIX_Kernel_test, MPIX_Kernel_wait, MPIX_Kernel_waitall

    ! A kernel under way; of a null one c_associated(request%handle) is false.
    type, bind(C), public :: MPIX_Kernel_request
        type(c_ptr) :: handle = c_null_ptr
    end type

    ! How a kernel ended.
    type, bind(C), public :: MPIX_Kernel_status
        integer(c_int) :: result = 0 ! highest of all workers
        integer(c_int) :: rank = 0 ! first worker that had it
        character(kind=c_char) :: text(256) = c_null_char
    end type

    interface
        integer(c_int) function f_init() bind(C, name="telpher_f_init")
            import :: c_int
        end function
        integer(c_int) function f_finalize() bind(C, name="telpher_f_finalize")
            import :: c_int
        end function
        integer(c_int) function f_world() bind(C, name="telpher_f_world")
            import :: c_int
        end function
        integer(c_int) function f_start(program, workers, root, comm, inter, text, text_size) &
                bind(C, name="telpher_f_start")
            import :: c_int, c_char
            character(kind=c_char), intent(in) :: program(*)
            integer(c_int), value :: workers, root, comm, text_size
            integer(c_int), intent(out) :: inter
            character(kind=c_char), intent(out) :: text(*)
        end function
        ! without a request, c_null_ptr, it is MPIX_Kernel_call()
        integer(c_int) function f_icall(name, argcount, args, argsizes, root, comm, inter, request) &
                bind(C, name="telpher_f_icall")
            import :: c_int, c_char, c_ptr
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), value :: argcount, root, comm, inter
            type(c_ptr), intent(in) :: args(*)
            integer(c_int), intent(in) :: argsizes(*)
            type(c_ptr), value :: request
        end function
        integer(c_int) function f_call_multiple(count, names, argcounts, args, argsizes, root, comm, &
                inter) bind(C, name="telpher_f_call_multiple")
            import :: c_int, c_ptr
            integer(c_int), value :: count, root, comm, inter
            type(c_ptr), intent(in) :: names(*), args(*), argsizes(*)
            integer(c_int), intent(in) :: argcounts(*)
        end function
        integer(c_int) function f_after(count, requests, comm, inter) bind(C, name="telpher_f_after")
            import :: c_int, MPIX_Kernel_request
            integer(c_int), value :: count, comm, inter
            type(MPIX_Kernel_request), intent(in) :: requests(*)
        end function
        integer(c_int) function f_test(request, flag, status) bind(C, name="MPIX_Kernel_test")
            import :: c_int, MPIX_Kernel_request, MPIX_Kernel_status
            type(MPIX_Kernel_request), intent(inout) :: request
            integer(c_int), intent(out) :: flag
            type(MPIX_Kernel_status), intent(out) :: status
        end function
        integer(c_int) function f_wait(request, status) bind(C, name="MPIX_Kernel_wait")
            import :: c_int, MPIX_Kernel_request, MPIX_Kernel_status
            type(MPIX_Kernel_request), intent(inout) :: request
            type(MPIX_Kernel_status), intent(out) :: status
        end function
        integer(c_int) function f_waitall(count, requests, statuses) bind(C, name="MPIX_Kernel_waitall")
            import :: c_int, MPIX_Kernel_request, MPIX_Kernel_status
            integer(c_int), value :: count
            type(MPIX_Kernel_request), intent(inout) :: requests(*)
            type(MPIX_Kernel_status), intent(inout) :: statuses(*)
        end function
    end interface

contains

    subroutine MPIX_Kernel_init(ierror)
        integer, intent(out) :: ierror
        ierror = f_init()
    end subroutine

    subroutine MPIX_Kernel_finalize(ierror)
        integer, intent(out) :: ierror
        ierror = f_finalize()
    end subroutine

    subroutine MPIX_Kernel_world(comm)
        integer, intent(out) :: comm
        comm = f_world()
    end subroutine

    ! program: to spawn, '' = telpher-worker; workers: how many, 0 = as telpher/offload.h says.
    ! status: 0, or a negative telpher_status with its words in text.
    subroutine telpher_offload_start(program, workers, root, comm, intercomm, text, status)
        character(len=*), intent(in) :: program
        integer, intent(in) :: workers, root, comm
        integer, intent(out) :: intercomm, status
        character(len=*), intent(out) :: text
        status = f_start(trim(program)//c_null_char, workers, root, comm, intercomm, text, len(text))
    end subroutine

    subroutine MPIX_Kernel_call(kernelname, argcount, args, argsizes, root, comm, intercomm, ierror)
        character(len=*), intent(in) :: kernelname
        integer, intent(in) :: argcount, argsizes(*), root, comm, intercomm
        type(c_ptr), intent(in) :: args(*)
        integer, intent(out) :: ierror
        ierror = f_icall(trim(kernelname)//c_null_char, argcount, args, argsizes, root, comm, &
            intercomm, c_null_ptr)
    end subroutine

    subroutine MPIX_Kernel_icall(kernelname, argcount, args, argsizes, root, comm, intercomm, request, &
            ierror)
        character(len=*), intent(in) :: kernelname
        integer, intent(in) :: argcount, argsizes(*), root, comm, intercomm
        type(c_ptr), intent(in) :: args(*)
        type(MPIX_Kernel_request), intent(out), target :: request
        integer, intent(out) :: ierror
        ierror = f_icall(trim(kernelname)//c_null_char, argcount, args, argsizes, root, comm, &
            intercomm, c_loc(request))
    end subroutine

    ! Column i of args and argsizes is for kernel i, of which argcounts(i) elements count.
    subroutine MPIX_Kernel_call_multiple(count, kernelnames, argcounts, args, argsizes, root, comm, &
            intercomm, ierror)
        integer, intent(in) :: count, argcounts(count), root, comm, intercomm
        character(len=*), intent(in) :: kernelnames(count)
        type(c_ptr), intent(in), target, contiguous :: args(:, :)
        integer(c_int), intent(in), target, contiguous :: argsizes(:, :)
        integer, intent(out) :: ierror
        character(kind=c_char), target :: text(len(kernelnames) + 1, count)
        type(c_ptr) :: names(count), arg_rows(count), size_rows(count)
        integer :: i, k

        do i = 1, count
            text(:, i) = c_null_char
            do k = 1, len_trim(kernelnames(i))
                text(k, i) = kernelnames(i)(k:k)
            end do
            names(i) = c_loc(text(1, i))
            arg_rows(i) = c_null_ptr
            size_rows(i) = c_null_ptr
            if (argcounts(i) > 0) then
                arg_rows(i) = c_loc(args(1, i))
                size_rows(i) = c_loc(argsizes(1, i))
            end if
        end do
        ierror = f_call_multiple(count, names, argcounts, arg_rows, size_rows, root, comm, intercomm)
    end subroutine

    subroutine MPIX_Kernel_after(count, requests, comm, intercomm, ierror)
        integer, intent(in) :: count, comm, intercomm
        type(MPIX_Kernel_request), intent(in) :: requests(*)
        integer, intent(out) :: ierror
        ierror = f_after(count, requests, comm, intercomm)
    end subroutine

    subroutine MPIX_Kernel_test(request, flag, status, ierror)
        type(MPIX_Kernel_request), intent(inout) :: request
        logical, intent(out) :: flag
        type(MPIX_Kernel_status), intent(out) :: status
        integer, intent(out) :: ierror
        integer(c_int) :: done
        ierror = f_test(request, done, status)
        flag = done /= 0
    end subroutine

    subroutine MPIX_Kernel_wait(request, status, ierror)
        type(MPIX_Kernel_request), intent(inout) :: request
        type(MPIX_Kernel_status), intent(out) :: status
        integer, intent(out) :: ierror
        ierror = f_wait(request, status)
    end subroutine

    subroutine MPIX_Kernel_waitall(count, requests, statuses, ierror)
        integer, intent(in) :: count
        type(MPIX_Kernel_request), intent(inout) :: requests(*)
        type(MPIX_Kernel_status), intent(inout) :: statuses(*)
        integer, intent(out) :: ierror
        ierror = f_waitall(count, requests, statuses)
    end subroutine
end module
