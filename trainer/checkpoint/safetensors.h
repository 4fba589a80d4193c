// SPDX-License-Identifier: Apache-2.0
// safetensors files: reading with limits, streaming writing.
//
// Format (README of the safetensors project): u64 little-endian N; N bytes of JSON beginning with
// '{', padded with spaces; then one buffer. The JSON maps names to {"dtype", "shape",
// "data_offsets": [begin, end]} with offsets relative to the buffer, and "__metadata__" to strings.
// Elements are little-endian, in C order; the tensors cover the buffer without gaps or overlaps.
// serried stores weights, EMA and optimiser shards in this format; files of other programs can be
// loaded if they keep to the format and to the limits below. Nothing in a file is ever executed.
#ifndef SR_TRAINER_SAFETENSORS_H
#define SR_TRAINER_SAFETENSORS_H

#include <stdint.h>

#include "kernels/base/dtype.h"
#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SR_SAFETENSORS_MAX_RANK 8 // dimensions of a tensor
// Bytes: the limit of the format's own library, beyond which other programs refuse a file. A header
// is large where it has the names of very many classes.
#define SR_SAFETENSORS_MAX_HEADER ((uint64_t)100000000)
#define SR_SAFETENSORS_MAX_TENSORS 65536 // of a file

// A tensor as it is stored. BOOL reads as SR_U8; dtypes that sr_dtype lacks are refused by name.
typedef struct sr_stored_tensor {
    const char *name;
    sr_dtype dtype;
    int rank; // 0 for a scalar
    int64_t shape[SR_SAFETENSORS_MAX_RANK];
    const void *data;    // for sr_safetensors_write: its elements; NULL from a reader
    uint64_t begin, end; // from a reader: bytes in the buffer
} sr_stored_tensor;

// Checksums of a file that is being written; used inside serried.
typedef struct sr_file_sums sr_file_sums;

// Product of the shape (1 for rank 0). Readers and sr_safetensors_create check that it fits.
int64_t sr_stored_elements(const sr_stored_tensor *tensor);

// A metadata string. serried's own keys begin with "serried.".
typedef struct sr_metadata {
    const char *key, *value;
} sr_metadata;

// -- reading ---------------------------------------------------------------------------------

// One thread at a time.
typedef struct sr_safetensors sr_safetensors;

// Reads and checks the header: at most 100 MB and 65,536 tensors, unique names, contiguous offsets
// up to the exact end of the file, products without overflow. Otherwise SR_E_DATA naming tensor and
// byte, SR_E_UNSUPPORTED for a dtype that serried lacks, SR_E_NOT_FOUND for a missing file.
SR_NODISCARD sr_status sr_safetensors_open(const char *path, sr_safetensors **out);
// The same for an open file, of which it takes ownership, also after a failure; 'path' is for
// messages, 'sums' as below, or NULL.
SR_NODISCARD sr_status sr_safetensors_open_fd(int fd, const char *path, const sr_file_sums *sums,
                                              sr_safetensors **out);
// The same for a file with known checksums: every byte, also of the header, is compared when it is
// read (SR_E_CHECKSUM naming file, tensor and bytes). The sums are copied.
SR_NODISCARD sr_status sr_safetensors_open_checked(const char *path, const sr_file_sums *sums,
                                                   sr_safetensors **out);
// NULL is legal.
void sr_safetensors_free(sr_safetensors *file);
// The path as opened. Borrowed until free.
const char *sr_safetensors_path(const sr_safetensors *file);
// Bytes before the buffer (8 and the header). A tensor's file offset is this plus its 'begin'.
uint64_t sr_safetensors_data_offset(const sr_safetensors *file);

// Number of tensors.
int sr_safetensors_count(const sr_safetensors *file);
// The index-th tensor in file order; strings are borrowed until free.
const sr_stored_tensor *sr_safetensors_get(const sr_safetensors *file, int index);
// NULL if no tensor has this name.
const sr_stored_tensor *sr_safetensors_find(const sr_safetensors *file, const char *name);
// NULL if the file has no such key.
const char *sr_safetensors_metadata(const sr_safetensors *file, const char *key);

// Elements [first, first + count) of a tensor in its stored dtype.
SR_NODISCARD sr_status sr_safetensors_read(sr_safetensors *file, const sr_stored_tensor *tensor,
                                           int64_t first, int64_t count, void *out);

// -- writing ---------------------------------------------------------------------------------

// A file that is being written. One thread at a time.
typedef struct sr_safetensors_writer sr_safetensors_writer;

// Reserves the space and writes the header of a file that becomes visible at commit. Tensors are
// stored by falling element size, then by name, so that each is aligned to its elements. "format":
// "pt" is added to the metadata (loaders for PyTorch require it). SR_E_ARGUMENT for duplicate or
// empty names, negative dimensions or too many of them; SR_E_NO_SPACE says how much is needed and
// free.
SR_NODISCARD sr_status sr_safetensors_create(const char *path, const sr_stored_tensor *tensors,
                                             int count, const sr_metadata *metadata,
                                             int metadata_count, sr_safetensors_writer **out);
// Index into 'tensors' of the k-th stored tensor. sr_safetensors_put must follow this order.
int sr_safetensors_order(const sr_safetensors_writer *writer, int k);
// Appends bytes to the buffer; any number at a time.
SR_NODISCARD sr_status sr_safetensors_put(sr_safetensors_writer *writer, const void *data,
                                          uint64_t bytes);
// Makes the file durable and visible. SR_E_ARGUMENT unless exactly all bytes were put. If sums is
// not NULL, it gets the checksums of what was written (release with sr_file_sums_release).
SR_NODISCARD sr_status sr_safetensors_commit(sr_safetensors_writer *writer, sr_file_sums *sums);
// Frees the writer. Without a commit the file is removed.
void sr_safetensors_writer_free(sr_safetensors_writer *writer);

// Creates, puts and commits, from tensors[].data.
SR_NODISCARD sr_status sr_safetensors_write(const char *path, const sr_stored_tensor *tensors,
                                            int count, const sr_metadata *metadata,
                                            int metadata_count, sr_file_sums *sums);

#ifdef __cplusplus
}
#endif
#endif
