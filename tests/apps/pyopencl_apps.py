#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""usage: pyopencl_apps.py PLATFORM-SUBSTRING

What people do with PyOpenCL: arrays, elementwise kernels, reductions, scans, a kernel of one's own, on
each device of the platform, then on one context with all of them. Every result is compared with numpy;
a digest of all of them is printed, so that two drivers can be compared."""
import hashlib
import sys

import numpy as np
import pyopencl as cl
import pyopencl.array as cl_array
from pyopencl.elementwise import ElementwiseKernel
from pyopencl.reduction import ReductionKernel
from pyopencl.scan import GenericScanKernel, InclusiveScanKernel

COUNT = 100_003  # no multiple of any group size
digest = hashlib.sha256()
rng = np.random.default_rng(7)


def same(what, got, want, rtol=0.0):
    np.testing.assert_allclose(got, want, rtol=rtol, err_msg=what)
    digest.update(np.ascontiguousarray(got).tobytes() if rtol == 0 else b"close")


def arrays(queue):
    a = rng.integers(-1000, 1000, COUNT, dtype=np.int32)
    b = rng.integers(1, 1000, COUNT, dtype=np.int32)
    da, db = cl_array.to_device(queue, a), cl_array.to_device(queue, b)
    same("sum of arrays", (da + 3 * db).get(), a + 3 * b)
    same("slice", da[17:9000].get(), a[17:9000])
    same("reversed by take", cl_array.take(da, cl_array.arange(queue, COUNT - 1, -1, -1, dtype=np.int32)).get(),
         a[::-1])
    same("where", cl_array.if_positive(da, da, db).get(), np.where(a > 0, a, b))
    same("fill", cl_array.zeros(queue, 1000, np.float32).fill(2.5).get(), np.full(1000, 2.5, np.float32))
    mapped = cl_array.to_device(queue, a)
    host, event = cl.enqueue_map_buffer(queue, mapped.data, cl.map_flags.READ, 0, (COUNT,), np.int32)
    event.wait()
    same("map", host.copy(), a)
    host.base.release(queue)


def elementwise(queue):
    x = rng.random(COUNT, dtype=np.float32)
    y = rng.random(COUNT, dtype=np.float32)
    kernel = ElementwiseKernel(queue.context, "float a, float *x, float *y, float *z",
                               "z[i] = a * x[i] + y[i] * y[i]", "axpy_square")
    dx, dy = cl_array.to_device(queue, x), cl_array.to_device(queue, y)
    dz = cl_array.empty_like(dx)
    kernel(np.float32(2.5), dx, dy, dz)
    same("elementwise", dz.get(), np.float32(2.5) * x + y * y, rtol=1e-5)


def reductions(queue):
    a = rng.integers(-1000, 1000, COUNT, dtype=np.int32)
    b = rng.integers(-1000, 1000, COUNT, dtype=np.int32)
    da, db = cl_array.to_device(queue, a), cl_array.to_device(queue, b)
    dot = ReductionKernel(queue.context, np.int64, neutral="0", reduce_expr="a + b",
                          map_expr="(long) x[i] * y[i]", arguments="const int *x, const int *y")
    same("dot", dot(da, db).get(), np.dot(a.astype(np.int64), b))
    same("max", cl_array.max(da).get(), a.max())
    same("sum", cl_array.sum(da, dtype=np.int64).get(), a.sum(dtype=np.int64))


def scans(queue):
    a = rng.integers(-9, 9, COUNT, dtype=np.int32)
    da = cl_array.to_device(queue, a)
    InclusiveScanKernel(queue.context, np.int32, "a + b", neutral="0")(da)
    same("inclusive scan", da.get(), np.cumsum(a, dtype=np.int32))
    out = cl_array.zeros(queue, COUNT, np.int32)
    count = cl_array.zeros(queue, 1, np.int32)
    keep = GenericScanKernel(
        queue.context, np.int32, arguments="__global int *in, __global int *out, __global int *n",
        input_expr="in[i] > 3 ? 1 : 0", scan_expr="a + b", neutral="0",
        output_statement="if (prev_item != item) out[item - 1] = in[i]; if (i + 1 == N) *n = item;")
    keep(cl_array.to_device(queue, a), out, count)
    kept = a[a > 3]
    same("compaction", out.get()[: int(count.get()[0])], kept)


def own_kernel(queue):
    source = """
        __kernel void transpose(__global const float *in, __global float *out, __local float *tile) {
            int x = get_global_id(0), y = get_global_id(1), lx = get_local_id(0), ly = get_local_id(1);
            tile[ly * 16 + lx] = in[y * get_global_size(0) + x];
            barrier(CLK_LOCAL_MEM_FENCE);
            int ox = get_group_id(1) * 16 + lx, oy = get_group_id(0) * 16 + ly;
            out[oy * get_global_size(1) + ox] = tile[lx * 16 + ly];
        }"""
    matrix = rng.random((256, 128), dtype=np.float32)
    program = cl.Program(queue.context, source).build()
    din = cl_array.to_device(queue, matrix)
    dout = cl_array.empty(queue, (128, 256), np.float32)
    program.transpose(queue, (128, 256), (16, 16), din.data, dout.data, cl.LocalMemory(16 * 16 * 4))
    same("transpose", dout.get(), matrix.T)


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
    same("passed around", result, host + 15)


def main(name):
    platforms = [p for p in cl.get_platforms() if name.lower() in p.name.lower()]
    if not platforms:
        sys.exit(f"no platform named like {name}: {[p.name for p in cl.get_platforms()]}")
    devices = platforms[0].get_devices()
    for device in devices:
        queue = cl.CommandQueue(cl.Context([device]))
        for part in (arrays, elementwise, reductions, scans, own_kernel):
            part(queue)
            print(f"{device.name}: {part.__name__} right", file=sys.stderr)
    all_devices(devices)
    print(f"{len(devices)} devices, digest {digest.hexdigest()[:16]}")


if __name__ == "__main__":
    main(sys.argv[1])
