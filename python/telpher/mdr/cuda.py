# SPDX-License-Identifier: Apache-2.0
"""charm.lib: the copies between host and CUDA memory that programs for Charm4py call by addresses."""
import ctypes

from ..buffers import cuda_driver


class CudaLibrary:
    """Calls of the CUDA driver, in the context that is current: that of CuPy, Numba or PyTorch."""

    def __init__(self):
        try:
            self._driver = cuda_driver()
        except OSError as wrong:
            raise RuntimeError(f"charm.lib needs the CUDA driver: {wrong}") from None

    def _call(self, name, *args):
        code = getattr(self._driver, name)(*args)
        if code != 0:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'error').decode()} ({code})")

    def CudaDtoH(self, host: int, device: int, nbytes: int, stream: int = 0) -> None:
        """Starts a copy of @nbytes at the address @device to the address @host, in a stream."""
        self._call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(host), ctypes.c_uint64(device), ctypes.c_size_t(nbytes),
                   ctypes.c_void_p(stream))

    def CudaHtoD(self, device: int, host: int, nbytes: int, stream: int = 0) -> None:
        """Starts a copy of @nbytes at the address @host to the address @device, in a stream."""
        self._call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(device), ctypes.c_void_p(host), ctypes.c_size_t(nbytes),
                   ctypes.c_void_p(stream))

    def CudaStreamSynchronize(self, stream: int = 0) -> None:
        """Waits for the work of a stream."""
        self._call("cuStreamSynchronize", ctypes.c_void_p(stream))
