! SPDX-License-Identifier: Apache-2.0
! Calls with mpif.h, in fixed form: buffers of several types, and the
! common blocks of each rank. Any MPI runs it.
      program include
      include 'mpif.h'
      integer ierror, rank, size, in, all, saved, failures, i
      integer status(MPI_STATUS_SIZE)
      double precision near, sum, begin
      character*8 text, other
      common /own/ saved, failures

      call MPI_INIT(ierror)
      begin = MPI_WTIME()
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierror)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, size, ierror)
      saved = rank
      failures = 0
      do i = 1, 3
        call MPI_BARRIER(MPI_COMM_WORLD, ierror)
        call check(saved .eq. rank, 'common block')
      end do
      near = rank + 0.5d0
      call MPI_ALLREDUCE(near, sum, 1, MPI_DOUBLE_PRECISION, MPI_SUM,
     &                   MPI_COMM_WORLD, ierror)
      call check(abs(sum - size * size / 2d0) .lt. 1d-9, 'sum')
      in = rank
      call MPI_BCAST(in, 1, MPI_INTEGER, size - 1, MPI_COMM_WORLD,
     &               ierror)
      call check(in .eq. size - 1, 'bcast')
      write (text, '(a,i4)') 'rank', rank
      call MPI_SENDRECV(text, 8, MPI_CHARACTER, mod(rank + 1, size), 3,
     &                  other, 8, MPI_CHARACTER, MPI_ANY_SOURCE, 3,
     &                  MPI_COMM_WORLD, status, ierror)
      write (text, '(a,i4)') 'rank', mod(rank + size - 1, size)
      call check(other .eq. text, 'characters')
      call check(status(MPI_SOURCE) .eq. mod(rank + size - 1, size),
     &           'source')
      call check(MPI_WTIME() .ge. begin, 'time')
      call MPI_REDUCE(failures, all, 1, MPI_INTEGER, MPI_SUM, 0,
     &                MPI_COMM_WORLD, ierror)
      call MPI_BCAST(all, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
      if (rank .eq. 0) print *, all, ' failures'
      call MPI_FINALIZE(ierror)
      if (all .ne. 0) call exit(1)
      end

      subroutine check(ok, what)
      logical ok
      character*(*) what
      integer saved, failures
      common /own/ saved, failures
      if (.not. ok) then
        failures = failures + 1
        print *, 'rank', saved, what, ': FAILED'
      end if
      end
