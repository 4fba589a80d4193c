// SPDX-License-Identifier: Apache-2.0
// Only in builds with sanitizers, as part of libserried: no library is unloaded. Open MPI unloads
// its components before the leak check, which then reports memory of an "unknown module" that no
// suppression can name (lsan.supp).
int dlclose(void *library);

int dlclose(void *library) {
    (void)library;
    return 0;
}
