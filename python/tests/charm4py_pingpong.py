# SPDX-License-Identifier: Apache-2.0
"""usage: telpher launch -n 2 -- python3 charm4py_pingpong.py

The exchange of Figure 9 of the paper on GPU-aware communication, host-staged and direct: a program for Charm4py of which
only the import is changed. Numba's cuda module is played by device_arrays.py, with CUDA memory of the driver that
TELPHER_LIBCUDA names.
"""
import array

import numpy as np
from device_arrays import cuda

from telpher.mdr import charm, Chare, Array, coro, Future, Channel

ROUNDS = 20


class Block(Chare):
    @coro
    def ping_pong(self, gpu_direct, by_address, size, done):
        me = self.thisIndex[0]
        stream = cuda.stream()
        stream_address = stream.handle.value
        h_send, h_recv = np.full(size, me + 1, dtype='int8'), np.zeros(size, dtype='int8')
        d_send, d_recv = cuda.device_array(size, dtype='int8'), cuda.device_array(size, dtype='int8')
        d_send.copy_to_device(h_send)
        d_recv.copy_to_device(h_recv)
        d_send_addr = d_send.__cuda_array_interface__['data'][0]
        d_recv_addr = d_recv.__cuda_array_interface__['data'][0]
        h_send_addr = h_send.__array_interface__['data'][0]
        ptrs, sizes = array.array('L', [d_send_addr]), array.array('L', [d_send.nbytes])
        post_ptrs, post_sizes = array.array('L', [d_recv_addr]), array.array('i', [d_recv.nbytes])
        channel = Channel(self, self.thisProxy[1 - me])

        def send():
            if not gpu_direct:
                charm.lib.CudaDtoH(h_send_addr, d_send_addr, size, stream_address)
                charm.lib.CudaStreamSynchronize(stream_address)
                channel.send(h_send)
            elif by_address:
                channel.send(gpu_src_ptrs=ptrs, gpu_src_sizes=sizes)
            else:
                channel.send(d_send)

        def recv():
            if not gpu_direct:
                received = channel.recv()
                charm.lib.CudaHtoD(d_recv_addr, received.__array_interface__['data'][0], size, stream_address)
                charm.lib.CudaStreamSynchronize(stream_address)
            elif by_address:
                channel.recv(post_buf_addresses=post_ptrs, post_buf_sizes=post_sizes)
            else:
                channel.recv(d_recv)

        for _ in range(ROUNDS):
            if me == 0:
                send()
                recv()
            else:
                recv()
                send()
        d_recv.copy_to_host(h_recv)
        if not (h_recv == 2 - me).all():
            raise AssertionError(f"{size} bytes, direct {gpu_direct}: {h_recv}")
        self.reduce(done)


def main(args):
    blocks = Array(Block, 2)
    for size in (1, 1000, 100_000):
        for gpu_direct, by_address in ((False, False), (True, False), (True, True)):
            done = Future()
            blocks.ping_pong(gpu_direct, by_address, size, done)
            done.get()
    print("ping-pong: OK", flush=True)
    charm.exit()


charm.start(main)
