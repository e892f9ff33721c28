# SPDX-License-Identifier: Apache-2.0
"""Ranks in Python: channels, windows, memory of each kind, errors. Run by telpher launch -n 2."""
import array
import importlib
import sys
import unittest

import telpher
from telpher.buffers import address_of

try:
    import numpy
except ImportError:
    numpy = None

job = None


class Ranks(unittest.TestCase):
    def setUp(self):
        self.other = 1 - job.rank
        job.barrier()

    def tearDown(self):
        job.barrier()

    def ping_pong(self, number, send, recv):
        channel = job.channel(self.other, number)
        if job.rank == 0:
            channel.send(send).wait(60)
            self.assertEqual(channel.recv(recv).wait(60), len(memoryview(send).cast("B")))
        else:
            self.assertEqual(channel.recv(recv).wait(60), len(memoryview(send).cast("B")))
            channel.send(recv).wait(60)
        channel.close()

    def test_buffers_go_and_come_back(self):
        for number, size in enumerate((0, 1, 8, 4096, 65537, 1 << 20)):
            data, back = bytes(i * 7 & 255 for i in range(size)), bytearray(size)
            self.ping_pong(number, data, back)
            self.assertEqual(bytes(back), data)

    def test_array_of_doubles(self):
        data, back = array.array("d", range(1000)), array.array("d", [0]) * 1000
        self.ping_pong(100, data, back)
        self.assertEqual(back, data)

    @unittest.skipIf(numpy is None, "no NumPy")
    def test_numpy(self):
        data, back = numpy.arange(5000.0), numpy.zeros(5000)
        self.ping_pong(101, data, back)
        self.assertTrue((back == data).all())
        with self.assertRaisesRegex(ValueError, "contiguous"):
            job.channel(self.other, 102).send(data[::2])
        with self.assertRaisesRegex(TypeError, "array of Python objects"):
            job.channel(self.other, 102).send(numpy.array([job, None]))

    def test_memory_the_processor_cannot_touch(self):
        data, back = bytes(range(256)) * 1024, bytearray(256 * 1024)
        there = job.alloc(len(data), "sim")
        channel = job.channel(self.other, 103)
        if job.rank == 0:
            there.copy_from(data)
            channel.send(there).wait(60)
        else:
            channel.recv(there).wait(60)
            there.copy_to(back)
            self.assertEqual(bytes(back), data)
            self.assertEqual(bytes(there[256:512].copy_to(bytearray(256))), data[:256])
            with self.assertRaisesRegex(TypeError, "copy_to"):
                there.view()
        with self.assertRaisesRegex(ValueError, "has 7 bytes"):
            there.copy_from(b"1234567")
        job.barrier()
        there.free()

    def test_put_and_notify(self):
        memory = job.alloc(8192)
        window = job.window(memory)
        self.assertEqual(window.size(self.other), 8192)
        if job.rank == 0:
            window.put(1, 4096, b"x" * 100, tag=5).wait(60)
            window.wait(6, timeout=60)
            self.assertEqual(bytes(memory.view()[:4]), b"back")
        else:
            window.wait(5, source=0, timeout=60)
            self.assertEqual(bytes(memory.view()[4096:4196]), b"x" * 100)
            window.put(0, 0, b"back", tag=6).wait(60)
        got = bytearray(4)
        if job.rank == 1:
            window.get(0, 0, got).wait(60)
            self.assertEqual(got, b"back")
        self.assertFalse(window.test(7))
        with self.assertRaises(telpher.TimedOut):
            window.wait(7, timeout=0.05)
        with self.assertRaisesRegex(telpher.Error, "RANGE"):
            window.put(self.other, 8190, b"too long").wait(60)
        job.barrier()
        window.close()

    def test_wrong_use_is_told(self):
        with self.assertRaisesRegex(telpher.Error, "RANGE"):
            job.channel(99)
        for wrong in (-1, job.size):
            with self.assertRaisesRegex(telpher.Error, f"RANGE: there is no rank {wrong}: this job has ranks 0 to 1"):
                job.channel(wrong)
        channel = job.channel(self.other, 104)
        with self.assertRaisesRegex(telpher.Error, "EXISTS"):
            job.channel(self.other, 104)
        with self.assertRaises(TypeError):
            channel.recv(b"read-only")
        with self.assertRaises(TypeError):
            channel.send(17)
        with self.assertRaisesRegex(ValueError, "one of host"):
            job.alloc(8, "nonsense")
        with self.assertRaises(telpher.TimedOut):
            channel.recv(bytearray(8)).wait(0.05)
        channel.close()

    def test_closed_and_freed_objects_say_so(self):
        channel, memory = job.channel(self.other, 105), job.alloc(8)
        window, part, request = job.window(memory), memory[0:4], channel.recv(bytearray(1))
        for close in channel.close, window.close, memory.free:
            close()
        for call, wrong in ((lambda: channel.send(b"x"), "channel is closed"),
                            (lambda: window.put(0, 0, b"x"), "window is closed"),
                            (lambda: part.copy_from(b"1234"), "memory was freed"),
                            (lambda: window.notify(0, 1), "window is closed")):
            with self.assertRaisesRegex(ValueError, wrong):
                call()
        with self.assertRaisesRegex(telpher.Error, "CANCELED"):
            request.wait(60)

    def test_a_channel_lives_as_long_as_its_transfers(self):
        data, back = bytes(range(256)) * 4096, bytearray(1 << 20)
        if job.rank == 0:
            request = job.channel(1, 106).send(data)
        else:
            request = job.channel(0, 106).recv(back)
        self.assertEqual(request.wait(60), len(data))
        if job.rank == 1:
            self.assertEqual(back, data)

    def test_a_buffer_lives_as_long_as_its_transfer(self):
        """Requests are dropped: the buffers of transfers under way belong to nobody else."""
        channel, size = job.channel(self.other, 107), 4 << 20
        for turn in range(10):
            if job.rank == 0:
                for byte in range(4):
                    channel.send(bytes([byte]) * size)
                junk = [b"\xff" * size for _ in range(4)]
                channel.recv(bytearray(1)).wait(60)
                del junk
            else:
                for byte in range(4):
                    back = bytearray(size)
                    channel.recv(back).wait(60)
                    self.assertEqual(back.count(byte), size)
                channel.send(b"x").wait(60)
        job.progress()
        self.assertEqual(job._left, [])
        channel.recv(bytearray(1 << 20))  # nothing arrives
        if job.rank == 0:
            self.assertEqual(len(job._left), 1)
        channel.close()

    @unittest.skipIf(numpy is None or not hasattr(numpy, "from_dlpack"), "no NumPy with DLPack")
    def test_dlpack_both_ways(self):
        memory = job.alloc(64)
        memory.view()[:] = bytes(range(64))
        tensor = numpy.from_dlpack(memory)
        self.assertEqual(tensor.tolist(), list(range(64)))
        del memory  # the tensor keeps it
        self.assertEqual(int(tensor[63]), 63)
        pointer, size, _keep = address_of(_OnlyDLPack(numpy.arange(4.0)))
        self.assertEqual(size, 32)
        self.assertTrue(pointer)


    def test_dlpack_of_gpus(self):
        libraries = [library for library in map(_of_gpu, ("torch", "cupy")) if library is not None]
        if not libraries:
            self.skipTest("no GPU with PyTorch or CuPy")
        for number, library in enumerate(libraries):
            channel, memory = job.channel(self.other, 110 + number), job.alloc(4000, "cuda")
            theirs = library.from_dlpack(memory).view(library.float32)
            if job.rank == 0:
                mine = library.arange(1000, dtype=library.float32)
                mine = mine.cuda() if hasattr(mine, "cuda") else mine
                channel.send(_OnlyDLPack(mine)).wait(60)
                channel.recv(memory).wait(60)
                self.assertTrue(bool((theirs == mine + 1).all()))
            else:
                channel.recv(memory).wait(60)
                theirs[:] += 1
                (library.cuda.synchronize if library.__name__ == "torch" else library.cuda.runtime.deviceSynchronize)()
                channel.send(memory).wait(60)


def _of_gpu(name):
    try:
        library = importlib.import_module(name)
    except ImportError:
        return None
    return library if library.cuda.is_available() else None


class _OnlyDLPack:
    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self):
        return self.tensor.__dlpack__()


if __name__ == "__main__":
    with telpher.Context() as job:
        if job.size != 2:
            sys.exit("run it with: telpher launch -n 2 -- python3 ranks.py")
        outcome = unittest.main(verbosity=1, exit=False).result
    for call in (lambda: job.rank, lambda: job.alloc(8), job.barrier):
        try:
            call()
        except ValueError:
            continue
        sys.exit("a closed context was used")
    sys.exit(not outcome.wasSuccessful())
