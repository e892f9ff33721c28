/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is called as Intel's driver for GPUs is, and is no driver. */

int telpher_test_gpu_driver; /* NOLINT: no file is empty */
