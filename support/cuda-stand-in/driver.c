/* A CUDA driver that computes nothing.

   It answers the driver calls of CubeCL as one GPU would: device memory is host memory, copies are
   made, modules are accepted, launches are counted and do nothing. With it, programs can be tested
   that must notice that nothing was computed, and every kernel that a program generates can be
   compiled by the real NVRTC, without a GPU.

   It has exactly the functions that the lab calls (calls.txt): cudarc looks each one up when it is
   first called and panics if it is missing.

   Environment variables:
     STAND_IN_ARCH   compute capability, such as 90 (default) or 80
     STAND_IN_CUDA   newest CUDA version that this driver supports, such as 13020 (default)
     STAND_IN_MEMORY what every byte of fresh memory holds: 0 (default), or 255, which makes NaN
     STAND_IN_LOG    a file that every call is appended to, one per line; launches with the kernel
                     and its bytes of shared memory
     STAND_IN_PTX    a folder that every module is written to
     STAND_IN_FAIL   KIND:N:CODE: the N-th call of this kind (from 1) returns CODE. Kinds: alloc,
                     copy, load, launch, wait, stream. A CODE from 700 on, except 701, is a fault of
                     the GPU: every later call fails with it, as on a real one. Other failures of
                     load and launch are those of one kernel, which fails each time. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <fcntl.h>

typedef uint64_t device_pointer;
typedef int status;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static status fault; /* A fault of the GPU, which never ends. */
static uintptr_t next_handle = 0x1000;

static int number(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    return text && *text ? atoi(text) : otherwise;
}

/* Appends one line to the log, in one write, so that lines of several threads stay whole. */
static void record(const char *line) {
    static int file = -2;
    char text[512];
    pthread_mutex_lock(&lock);
    if (file == -2) {
        const char *path = getenv("STAND_IN_LOG");
        file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
    }
    if (file >= 0) {
        int length = snprintf(text, sizeof text, "%s\n", line);
        if (length >= (int)sizeof text) length = sizeof text - 1;
        if (write(file, text, length) < 0) file = -1;
    }
    pthread_mutex_unlock(&lock);
}

static uint64_t hash_of(const char *text) {
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (; text && *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash;
}

/* The result of this call: CODE if STAND_IN_FAIL names it. SUBJECT is what the call works on: a
   module, a kernel. */
static status result_of(const char *kind, const char *call, const char *subject) {
    static int parsed, n, code, count;
    static char which[16];
    static uint64_t failed_subject;
    pthread_mutex_lock(&lock);
    if (!parsed) {
        const char *text = getenv("STAND_IN_FAIL");
        if (text) sscanf(text, "%15[a-z]:%d:%d", which, &n, &code);
        parsed = 1;
    }
    status result = fault;
    if (!result && kind && !strcmp(kind, which)) {
        if (++count == n) {
            result = code;
            fprintf(stderr, "stand-in: failed %s %d (%s)\n", kind, n, call);
            if (code >= 700 && code != 701) fault = code;
            else if (subject) failed_subject = hash_of(subject);
        } else if (subject && failed_subject && hash_of(subject) == failed_subject) {
            result = code;
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static void *handle(void) {
    pthread_mutex_lock(&lock);
    void *made = (void *)(next_handle += 16);
    pthread_mutex_unlock(&lock);
    return made;
}

#define CALL_ON(kind, subject)                                \
    do {                                                      \
        record(__func__);                                     \
        status failed = result_of(kind, __func__, subject);   \
        if (failed) return failed;                            \
    } while (0)
#define CALL(kind) CALL_ON(kind, NULL)

/* --- The device. Nothing here fails, because a fault only concerns work. */

status cuInit(unsigned flags) { record(__func__); return 0; }
status cuDriverGetVersion(int *version) { record(__func__); *version = number("STAND_IN_CUDA", 13020); return 0; }
status cuDeviceGetCount(int *count) { record(__func__); *count = 1; return 0; }
status cuDeviceGet(int *device, int index) { record(__func__); *device = index; return index ? 101 : 0; }
status cuDeviceGetName(char *name, int size, int device) {
    record(__func__);
    snprintf(name, size, "Stand-in that computes nothing");
    return 0;
}
status cuDeviceTotalMem_v2(size_t *bytes, int device) { record(__func__); *bytes = (size_t)8 << 30; return 0; }
status cuDeviceGetPCIBusId(char *id, int size, int device) { record(__func__); snprintf(id, size, "0000:01:00.0"); return 0; }

/* What an H100 (9.0) or A100 (8.0) answers. */
status cuDeviceGetAttribute(int *value, int attribute, int device) {
    int arch = number("STAND_IN_ARCH", 90), large = arch >= 90;
    record(__func__);
    switch (attribute) {
    case 1: *value = 1024; break;                        /* threads per block */
    case 2: case 3: *value = 1024; break;                /* block, x and y */
    case 4: *value = 64; break;                          /* block, z */
    case 5: *value = 2147483647; break;                  /* grid, x */
    case 6: case 7: *value = 65535; break;               /* grid, y and z */
    case 8: *value = 49152; break;                       /* shared memory per block */
    case 10: *value = 32; break;                         /* warp */
    case 12: *value = 65536; break;                      /* registers per block */
    case 16: *value = large ? 132 : 108; break;          /* multiprocessors */
    case 38: *value = large ? 52428800 : 41943040; break; /* L2 */
    case 39: *value = 2048; break;                       /* threads per multiprocessor */
    case 75: *value = arch / 10; break;
    case 76: *value = arch % 10; break;
    case 81: *value = large ? 233472 : 167936; break;    /* shared memory per multiprocessor */
    case 97: *value = large ? 232448 : 166912; break;    /* shared memory per block, opt-in */
    default: *value = 1;
    }
    return 0;
}

status cuDevicePrimaryCtxRetain(void **context, int device) { record(__func__); *context = (void *)&lock; return 0; }
status cuDevicePrimaryCtxRelease_v2(int device) { record(__func__); return 0; }
status cuCtxSetCurrent(void *context) { record(__func__); return 0; }
status cuCtxGetCurrent(void **context) { record(__func__); *context = (void *)&lock; return 0; }
status cuCtxGetStreamPriorityRange(int *least, int *greatest) { record(__func__); *least = 0; *greatest = -5; return 0; }

/* --- Streams and events. */

status cuStreamCreate(void **stream, unsigned flags) { CALL("stream"); *stream = handle(); return 0; }
status cuStreamCreateWithPriority(void **stream, unsigned flags, int priority) { CALL("stream"); *stream = handle(); return 0; }
status cuStreamDestroy_v2(void *stream) { record(__func__); return 0; }
status cuStreamSynchronize(void *stream) { CALL("wait"); return 0; }
status cuStreamWaitEvent(void *stream, void *event, unsigned flags) { CALL("wait"); return 0; }

/* An event is the time at which it was recorded: autotuning compares such times and does not end
   if none passes. */
typedef struct { double seconds; } event;
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}
status cuEventCreate(event **made, unsigned flags) { CALL("stream"); *made = calloc(1, sizeof(event)); return 0; }
status cuEventRecord(event *event, void *stream) { CALL("wait"); event->seconds = now(); return 0; }
status cuEventSynchronize(event *event) { CALL("wait"); return 0; }
status cuEventDestroy_v2(event *event) { record(__func__); free(event); return 0; }
status cuEventElapsedTime(float *milliseconds, event *start, event *end) {
    CALL("wait");
    double seconds = end->seconds - start->seconds;
    *milliseconds = (float)(1000 * (seconds > 1e-5 ? seconds : 1e-5));
    return 0;
}
status cuEventElapsedTime_v2(float *milliseconds, event *start, event *end) { return cuEventElapsedTime(milliseconds, start, end); }

/* --- Memory. */

static void *fresh(size_t size) {
    void *made = malloc(size ? size : 1);
    if (made) memset(made, number("STAND_IN_MEMORY", 0), size);
    return made;
}
status cuMemAlloc_v2(device_pointer *pointer, size_t size) {
    CALL("alloc");
    *pointer = (device_pointer)(uintptr_t)fresh(size);
    return *pointer ? 0 : 2;
}
status cuMemAllocAsync(device_pointer *pointer, size_t size, void *stream) { return cuMemAlloc_v2(pointer, size); }
status cuMemFree_v2(device_pointer pointer) { record(__func__); free((void *)(uintptr_t)pointer); return 0; }
status cuMemFreeAsync(device_pointer pointer, void *stream) { return cuMemFree_v2(pointer); }
status cuMemAllocHost_v2(void **pointer, size_t size) { CALL("alloc"); *pointer = fresh(size); return *pointer ? 0 : 2; }
status cuMemFreeHost(void *pointer) { record(__func__); free(pointer); return 0; }
status cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    record(__func__);
    *free_bytes = (size_t)7 << 30;
    *total = (size_t)8 << 30;
    return 0;
}

status cuMemcpyHtoDAsync_v2(device_pointer to, const void *from, size_t size, void *stream) {
    CALL("copy");
    memcpy((void *)(uintptr_t)to, from, size);
    return 0;
}
status cuMemcpyDtoHAsync_v2(void *to, device_pointer from, size_t size, void *stream) {
    CALL("copy");
    memcpy(to, (void *)(uintptr_t)from, size);
    return 0;
}
status cuMemcpyDtoDAsync_v2(device_pointer to, device_pointer from, size_t size, void *stream) {
    CALL("copy");
    memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
    return 0;
}
/* CUDA_MEMCPY2D_v2: kind 1 is host memory. */
typedef struct { size_t x, y; int kind; void *host; device_pointer device; void *array; size_t pitch; } side;
typedef struct { side from, to; size_t width, height; } copy_2d;
status cuMemcpy2DAsync_v2(const copy_2d *copy, void *stream) {
    CALL("copy");
    const side *a = &copy->from, *b = &copy->to;
    const char *from = a->kind == 1 ? a->host : (char *)(uintptr_t)a->device;
    char *to = b->kind == 1 ? b->host : (char *)(uintptr_t)b->device;
    for (size_t row = 0; row < copy->height; row++)
        memcpy(to + (b->y + row) * b->pitch + b->x, from + (a->y + row) * a->pitch + a->x, copy->width);
    return 0;
}

/* --- Modules and launches. */

typedef struct { char name[200]; } function;

status cuModuleLoadData(void **module, const void *image) {
    const char *folder = getenv("STAND_IN_PTX");
    CALL_ON("load", image);
    *module = handle();
    if (folder) {
        char path[512];
        snprintf(path, sizeof path, "%s/%d-%zx.ptx", folder, (int)getpid(), (uintptr_t)*module);
        FILE *file = fopen(path, "w");
        if (file) {
            fputs(image, file);
            fclose(file);
        }
    }
    return 0;
}
status cuModuleGetFunction(function **made, void *module, const char *name) {
    CALL_ON("load", name);
    *made = calloc(1, sizeof(function));
    snprintf((*made)->name, sizeof (*made)->name, "%s", name);
    return 0;
}
status cuFuncSetAttribute(function *function, int attribute, int value) { CALL(NULL); return 0; }
status cuLaunchKernel(function *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared, void *stream, void **parameters,
                      void **extra) {
    char line[400];
    status failed = result_of("launch", function->name, function->name);
    snprintf(line, sizeof line, "cuLaunchKernel %s %u", function->name, shared);
    record(line);
    return failed;
}
status cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *address, const uint64_t *shape,
                              const uint64_t *strides, const unsigned *box, const unsigned *steps,
                              int interleave, int swizzle, int promotion, int fill) {
    CALL(NULL);
    return 0;
}
status cuTensorMapEncodeIm2col(void *map) { CALL(NULL); return 0; }

/* NVRTC asks for internal functions of the driver; a driver may have none. */
status cuGetExportTable(const void **table, const void *id) { *table = NULL; return 500; }

status cuGetErrorName(status code, const char **name) { *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_THE_STAND_IN"; return 0; }
status cuGetErrorString(status code, const char **text) { *text = code == 2 ? "out of memory" : "a failure that the stand-in was told to make"; return 0; }
