#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: pyopencl_apps.py PLATFORM-SUBSTRING

What people do with PyOpenCL: arrays, elementwise kernels, reductions, scans, algorithms, kernels of one's
own, on each device of the platform, then on one context with all of them. Each check prints a line
"device 0, dot: right DIGEST": right by numpy's answer, and the digest lets two drivers be compared."""
import hashlib
import sys
import traceback

import numpy as np
import pyopencl as cl
import pyopencl.algorithm as algorithm
import pyopencl.array as cl_array
import pyopencl.clmath as clmath
from pyopencl.clrandom import PhiloxGenerator
from pyopencl.elementwise import ElementwiseKernel
from pyopencl.reduction import ReductionKernel
from pyopencl.scan import GenericScanKernel, InclusiveScanKernel
from pyopencl.tools import get_or_register_dtype, match_dtype_to_c_struct

COUNT = 100_003  # no multiple of any group size
failures = 0
rng = np.random.default_rng(7)


def same(device, what, got, want, rtol=0.0):
    """Prints whether got is want, up to rtol, and a digest of got."""
    global failures
    try:
        np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
        digest = hashlib.sha256(np.ascontiguousarray(got).tobytes()).hexdigest()[:16]
        print(f"device {device}, {what}: right {digest}")
    except AssertionError as error:
        failures += 1
        print(f"device {device}, {what}: WRONG")
        print(error, file=sys.stderr)


def ints(low, high):
    return rng.integers(low, high, COUNT, dtype=np.int32)


def arrays(n, queue):
    a, b = ints(-1000, 1000), ints(1, 1000)
    da, db = cl_array.to_device(queue, a), cl_array.to_device(queue, b)
    same(n, "arrays: sum", (da + 3 * db).get(), a + 3 * b)
    same(n, "arrays: slice", da[17:9000].get(), a[17:9000])
    backwards = cl_array.arange(queue, COUNT - 1, -1, -1, dtype=np.int32)
    same(n, "arrays: take", cl_array.take(da, backwards).get(), a[::-1])
    same(n, "arrays: where", cl_array.if_positive(da, da, db).get(), np.where(a > 0, a, b))
    same(n, "arrays: fill", cl_array.zeros(queue, 1000, np.float32).fill(2.5).get(), np.full(1000, 2.5))
    z = (rng.random(COUNT) + 1j * rng.random(COUNT)).astype(np.complex64)
    dz = cl_array.to_device(queue, z)
    same(n, "arrays: complex", (dz * dz.conj()).real.get(), (z * z.conj()).real, rtol=1e-5)
    same(n, "arrays: sine", clmath.sin(dz.real).get(), np.sin(z.real), rtol=1e-5)
    joined = cl_array.concatenate((da, db), queue=queue)
    same(n, "arrays: concatenate", joined.get(), np.concatenate((a, b)))


def maps(n, queue):
    a = ints(-1000, 1000)
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=a)
    flags = cl.map_flags.READ | cl.map_flags.WRITE
    host, event = cl.enqueue_map_buffer(queue, buffer, flags, 0, (COUNT,), np.int32, is_blocking=False)
    event.wait()
    same(n, "map: read", host.copy(), a)
    host += 5
    host.base.release(queue)
    result = np.empty_like(a)
    cl.enqueue_copy(queue, result, buffer)
    same(n, "map: written", result, a + 5)


def elementwise(n, queue):
    x, y = rng.random(COUNT, dtype=np.float32), rng.random(COUNT, dtype=np.float32)
    kernel = ElementwiseKernel(queue.context, "float a, float *x, float *y, float *z",
                               "z[i] = a * x[i] + y[i] * y[i]", "axpy_square")
    dx, dy = cl_array.to_device(queue, x), cl_array.to_device(queue, y)
    dz = cl_array.empty_like(dx)
    kernel(np.float32(2.5), dx, dy, dz)
    same(n, "elementwise", dz.get(), np.float32(2.5) * x + y * y, rtol=1e-5)
    kernel(np.float32(-1), dx, dy, dz, range=slice(0, COUNT, 2))
    want = np.where(np.arange(COUNT) % 2 == 0, y * y - x, np.float32(2.5) * x + y * y)
    same(n, "elementwise: every second", dz.get(), want, rtol=1e-5)


def reductions(n, queue):
    a, b = ints(-1000, 1000), ints(-1000, 1000)
    da, db = cl_array.to_device(queue, a), cl_array.to_device(queue, b)
    dot = ReductionKernel(queue.context, np.int64, neutral="0", reduce_expr="a + b",
                          map_expr="(long) x[i] * y[i]", arguments="const int *x, const int *y")
    same(n, "reductions: dot", dot(da, db).get(), np.dot(a.astype(np.int64), b))
    same(n, "reductions: max", cl_array.max(da).get(), a.max())
    same(n, "reductions: min of a part", cl_array.subset_min(cl_array.arange(queue, 100, dtype=np.int32), da).get(),
         a[:100].min())
    same(n, "reductions: sum", cl_array.sum(da, dtype=np.int64).get(), a.sum(dtype=np.int64))
    x = rng.random(COUNT, dtype=np.float32)
    same(n, "reductions: sum of floats", cl_array.sum(cl_array.to_device(queue, x)).get(), x.sum(), rtol=1e-5)


def reduce_struct(n, queue):
    """Smallest and largest together: a structure as the kernel's value."""
    dtype, declaration = match_dtype_to_c_struct(queue.device, "min_max", np.dtype([("low", np.int32),
                                                                                  ("high", np.int32)]))
    dtype = get_or_register_dtype("min_max", dtype)
    helpers = declaration + """
        min_max none(void) { min_max r = {2147483647, -2147483647 - 1}; return r; }
        min_max one(int x) { min_max r = {x, x}; return r; }
        min_max both(min_max a, min_max b) { min_max r = {min(a.low, b.low), max(a.high, b.high)}; return r; }"""
    kernel = ReductionKernel(queue.context, dtype, neutral="none()", reduce_expr="both(a, b)",
                             map_expr="one(x[i])", arguments="__global int *x", preamble=helpers)
    a = ints(-100000, 100000)
    got = kernel(cl_array.to_device(queue, a)).get()
    same(n, "reductions: structure", np.array([got["low"], got["high"]]), [a.min(), a.max()])


def scans(n, queue):
    a = ints(-9, 9)
    da = cl_array.to_device(queue, a)
    InclusiveScanKernel(queue.context, np.int32, "a + b", neutral="0")(da)
    same(n, "scans: inclusive", da.get(), np.cumsum(a, dtype=np.int32))
    out, count = cl_array.zeros(queue, COUNT, np.int32), cl_array.zeros(queue, 1, np.int32)
    keep = GenericScanKernel(
        queue.context, np.int32, arguments="__global int *in, __global int *out, __global int *n",
        input_expr="in[i] > 3 ? 1 : 0", scan_expr="a + b", neutral="0",
        output_statement="if (prev_item != item) out[item - 1] = in[i]; if (i + 1 == N) *n = item;")
    keep(cl_array.to_device(queue, a), out, count)
    same(n, "scans: compaction", out.get()[: int(count.get()[0])], a[a > 3])
    starts = (np.arange(COUNT) % 1000 == 0).astype(np.int8)
    parts = GenericScanKernel(
        queue.context, np.int32, arguments="__global int *in, __global char *starts, __global int *out",
        input_expr="in[i]", scan_expr="across_seg_boundary ? b : a + b", neutral="0",
        is_segment_start_expr="starts[i]", output_statement="out[i] = item;")
    parts(cl_array.to_device(queue, a), cl_array.to_device(queue, starts), out)
    want = np.concatenate([np.cumsum(a[i:i + 1000]) for i in range(0, COUNT, 1000)])
    same(n, "scans: in segments", out.get(), want)


def algorithms(n, queue):
    a = ints(0, 5000)
    da = cl_array.to_device(queue, a)
    kept, count, _ = algorithm.copy_if(da, "ary[i] > 2500")
    same(n, "algorithms: copy_if", kept.get()[: int(count.get())], a[a > 2500])
    sort = algorithm.RadixSort(queue.context, "int *values", key_expr="values[i]", sort_arg_names=["values"])
    (ordered,), _ = sort(da, key_bits=13)
    same(n, "algorithms: radix sort", ordered.get(), np.sort(a))
    numbers = PhiloxGenerator(queue.context, seed=11).uniform(queue, COUNT, np.float32).get()
    same(n, "algorithms: random numbers", np.clip(numbers, 0, 1), numbers)
    same(n, "algorithms: their mean", numbers.mean(), 0.5, rtol=0.02)


def own_kernels(n, queue):
    source = """
        __kernel void transpose(__global const float *in, __global float *out, __local float *tile) {
            int x = get_global_id(0), y = get_global_id(1), lx = get_local_id(0), ly = get_local_id(1);
            tile[ly * 16 + lx] = in[y * get_global_size(0) + x];
            barrier(CLK_LOCAL_MEM_FENCE);
            int ox = get_group_id(1) * 16 + lx, oy = get_group_id(0) * 16 + ly;
            out[oy * get_global_size(1) + ox] = tile[lx * 16 + ly];
        }
        __kernel void add(__global int *x, int n) { x[get_global_id(0)] += n; }"""
    matrix = rng.random((256, 128), dtype=np.float32)
    program = cl.Program(queue.context, source).build()
    din, dout = cl_array.to_device(queue, matrix), cl_array.empty(queue, (128, 256), np.float32)
    done = program.transpose(queue, (128, 256), (16, 16), din.data, dout.data, cl.LocalMemory(16 * 16 * 4))
    same(n, "kernels: transpose", dout.get(), matrix.T)
    times = done.profile
    same(n, "kernels: profile in order", times.queued <= times.submit <= times.start <= times.end, True)

    again = cl.Program(queue.context, [queue.device], [program.binaries[0]]).build()
    x = cl_array.zeros(queue, 1000, np.int32)
    waiting = cl.UserEvent(queue.context)
    added = again.add(queue, (1000,), None, x.data, np.int32(7), wait_for=[waiting])
    waiting.set_status(cl.command_execution_status.COMPLETE)
    added.wait()
    same(n, "kernels: from binary, after a user event", x.get(), np.full(1000, 7))
    try:
        cl.Program(queue.context, "__kernel void broken() { nowhere(); }").build()
        log = ""
    except cl.RuntimeError as error:
        log = str(error)
    same(n, "kernels: build log names the mistake", "nowhere" in log, True)


def rectangles(n, queue):
    """A part of a matrix there and back."""
    host = np.arange(64 * 48, dtype=np.int32).reshape(48, 64)
    buffer = cl.Buffer(queue.context, cl.mem_flags.READ_WRITE, host.nbytes)
    cl.enqueue_fill_buffer(queue, buffer, np.int32(-1), 0, host.nbytes)
    cl.enqueue_copy(queue, buffer, host, buffer_origin=(40, 5), host_origin=(16, 7), region=(80, 9),
                    buffer_pitches=(256,), host_pitches=(256,))
    got = np.empty_like(host)
    cl.enqueue_copy(queue, got, buffer)
    want = np.full_like(host, -1)
    want[5:14, 10:30] = host[7:16, 4:24]
    same(n, "copies: rectangle", got, want)


def all_devices(devices):
    """One context; each device adds to a buffer that the device before it wrote."""
    context = cl.Context(devices)
    queues = [cl.CommandQueue(context, device) for device in devices]
    program = cl.Program(context, "__kernel void add(__global int *x, int n) { x[get_global_id(0)] += n; }").build()
    host = np.arange(COUNT, dtype=np.int32)
    buffer = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=host)
    event = None
    for step in range(6):
        queue = queues[step % len(queues)]
        event = program.add(queue, (COUNT,), None, buffer, np.int32(step), wait_for=event and [event])
        queue.flush()
    result = np.empty_like(host)
    cl.enqueue_copy(queues[0], result, buffer, wait_for=[event])
    same("all", "passed around", result, host + 15)


def attempt(part, *arguments):
    """Runs a part; one that raises fails, and the others still run."""
    global failures
    try:
        part(*arguments)
    except Exception:
        failures += 1
        print(f"{part.__name__}: WRONG")
        traceback.print_exc()


def main(name):
    platforms = [p for p in cl.get_platforms() if name.lower() in p.name.lower()]
    if not platforms:
        sys.exit(f"no platform named like {name}: {[p.name for p in cl.get_platforms()]}")
    devices = platforms[0].get_devices()
    for number, device in enumerate(devices):
        queue = cl.CommandQueue(cl.Context([device]), properties=cl.command_queue_properties.PROFILING_ENABLE)
        for part in (arrays, maps, elementwise, reductions, reduce_struct, scans, algorithms, own_kernels,
                     rectangles):
            attempt(part, number, queue)
    attempt(all_devices, devices)
    return failures != 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
