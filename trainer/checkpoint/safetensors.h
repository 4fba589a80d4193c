// SPDX-License-Identifier: Apache-2.0
// safetensors files: reading within limits, streaming writing.
//
// Format (safetensors project README): u64 little-endian N; N bytes of JSON beginning with '{',
// padded with spaces; then one buffer. The JSON maps names to {"dtype", "shape", "data_offsets":
// [begin, end]} with offsets relative to the buffer, and "__metadata__" to strings. Elements are
// little-endian, C order; the tensors cover the buffer without holes or overlaps.
// This is serried's container for weights, EMA and optimiser shards; files of other programs load
// when they keep to the format and to the limits below. Nothing in a file is ever executed.
#ifndef SR_TRAINER_SAFETENSORS_H
#define SR_TRAINER_SAFETENSORS_H

#include <stdint.h>

#include "kernels/base/dtype.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_SAFETENSORS_MAX_RANK 8                     // dimensions of a tensor
#define SR_SAFETENSORS_MAX_HEADER ((uint64_t)8 << 20) // bytes, 8 MiB
#define SR_SAFETENSORS_MAX_TENSORS 65536              // of a file

// A tensor as it is stored. BOOL reads as SR_U8; dtypes that sr_dtype lacks are refused by name.
typedef struct sr_stored_tensor {
    const char *name;
    sr_dtype dtype;
    int rank; // 0 for a scalar
    int64_t shape[SR_SAFETENSORS_MAX_RANK];
    const void *data;    // for sr_safetensors_write: its elements; NULL from a reader
    uint64_t begin, end; // from a reader: bytes in the buffer
} sr_stored_tensor;

// Checksums of a file that is being written; of use to serried itself.
typedef struct sr_file_sums sr_file_sums;

// Product of the shape (1 for rank 0). The reader has checked it; a writer checks it on creation.
int64_t sr_stored_elements(const sr_stored_tensor *tensor);

// A metadata string. Keys of serried's own begin with "serried.".
typedef struct sr_metadata {
    const char *key, *value;
} sr_metadata;

// -- reading ---------------------------------------------------------------------------------

// Immutable after open, except that reads share the file: one thread at a time.
typedef struct sr_safetensors sr_safetensors;

// Reads and checks the header: <= 8 MiB, <= 65,536 tensors, unique names, offsets contiguous and
// exact to the end of the file, checked products. SR_E_DATA naming tensor and byte otherwise,
// SR_E_UNSUPPORTED for a dtype that serried lacks, SR_E_NOT_FOUND for a missing file.
SR_NODISCARD sr_status sr_safetensors_open(const char *path, sr_safetensors **out);
// The same for a file whose checksums are known: every byte, of the header too, is compared as it
// is read (SR_E_CHECKSUM naming file, tensor and bytes). The sums are copied.
SR_NODISCARD sr_status sr_safetensors_open_checked(const char *path, const sr_file_sums *sums,
                                                   sr_safetensors **out);
// NULL is legal.
void sr_safetensors_free(sr_safetensors *file);
// The path as it was opened. Borrowed until free.
const char *sr_safetensors_path(const sr_safetensors *file);
// Bytes before the buffer (8 and the header): file offset of a tensor is this plus its 'begin'.
uint64_t sr_safetensors_data_offset(const sr_safetensors *file);

// Number of tensors.
int sr_safetensors_count(const sr_safetensors *file);
// The index-th tensor in file order; strings are borrowed until free.
const sr_stored_tensor *sr_safetensors_get(const sr_safetensors *file, int index);
// NULL when there is none of this name.
const sr_stored_tensor *sr_safetensors_find(const sr_safetensors *file, const char *name);
// NULL when the file has no such key.
const char *sr_safetensors_metadata(const sr_safetensors *file, const char *key);

// Elements [first, first + count) of a tensor in its stored dtype.
SR_NODISCARD sr_status sr_safetensors_read(sr_safetensors *file, const sr_stored_tensor *tensor,
                                           int64_t first, int64_t count, void *out);

// -- writing ---------------------------------------------------------------------------------

// A file that is being written. One thread at a time.
typedef struct sr_safetensors_writer sr_safetensors_writer;

// Reserves the space and writes the header of a file that appears at commit. Tensors are stored by
// falling element size, then by name, so that every one is aligned to its elements. "format": "pt"
// is added to the metadata (loaders for PyTorch ask for it). SR_E_ARGUMENT for equal or empty
// names, negative or too many dimensions; SR_E_NO_SPACE says how much is needed and free.
SR_NODISCARD sr_status sr_safetensors_create(const char *path, const sr_stored_tensor *tensors,
                                             int count, const sr_metadata *metadata,
                                             int metadata_count, sr_safetensors_writer **out);
// Index into 'tensors' of the tensor that is stored in k-th place: puts follow this order.
int sr_safetensors_order(const sr_safetensors_writer *writer, int k);
// The next bytes of the buffer, in pieces of any size.
SR_NODISCARD sr_status sr_safetensors_put(sr_safetensors_writer *writer, const void *data,
                                          uint64_t bytes);
// Makes the file durable and visible; SR_E_ARGUMENT when not exactly all bytes were put. sums,
// where not NULL, gets the checksums of what was written (release with sr_file_sums_release).
SR_NODISCARD sr_status sr_safetensors_commit(sr_safetensors_writer *writer, sr_file_sums *sums);
// Ends the writer; without a commit nothing is left of the file.
void sr_safetensors_writer_free(sr_safetensors_writer *writer);

// All of it at once, from tensors[].data.
SR_NODISCARD sr_status sr_safetensors_write(const char *path, const sr_stored_tensor *tensors,
                                            int count, const sr_metadata *metadata,
                                            int metadata_count, sr_file_sums *sums);

#ifdef __cplusplus
}
#endif
#endif
