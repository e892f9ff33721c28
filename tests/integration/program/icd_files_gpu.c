/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is called as a driver of GPUs is, Intel's or NVIDIA's, and is no driver. */

int telpher_test_gpu_driver; /* NOLINT: no file is empty */
