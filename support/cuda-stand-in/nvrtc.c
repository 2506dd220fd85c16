/* An NVRTC that compiles nothing: it accepts every program and returns a few lines of PTX. With
   driver.c it makes tests of failures fast, and possible without any part of CUDA.

   Environment variables:
     STAND_IN_NVRTC  the version, such as 12080 (default)
     STAND_IN_FAIL   compile:N:CODE: the N-th compilation (from 1) fails with CODE. The first one is
                     that of the lab's check of the compiler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char ptx[] = ".version 8.0\n.target sm_80\n// compiled by the stand-in\n";
static const char message[] = "default_program(1): error: a failure that the stand-in was told to make\n";

int nvrtcVersion(int *major, int *minor) {
    const char *text = getenv("STAND_IN_NVRTC");
    int version = text ? atoi(text) : 12080;
    *major = version / 1000;
    *minor = version % 1000 / 10;
    return 0;
}

int nvrtcCreateProgram(void **program, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names) {
    *program = calloc(1, 1);
    return 0;
}
int nvrtcDestroyProgram(void **program) {
    free(*program);
    *program = NULL;
    return 0;
}
/* Programs are compiled one after the other, so a plain counter is enough. */
int nvrtcCompileProgram(void *program, int count, const char *const *options) {
    static int compiled;
    const char *text = getenv("STAND_IN_FAIL");
    int n, code;
    compiled++;
    if (text && sscanf(text, "compile:%d:%d", &n, &code) == 2 && n == compiled) {
        fprintf(stderr, "stand-in: failed compile %d\n", n);
        return code;
    }
    return 0;
}
int nvrtcGetPTXSize(void *program, size_t *size) { *size = sizeof ptx; return 0; }
int nvrtcGetPTX(void *program, char *to) { memcpy(to, ptx, sizeof ptx); return 0; }
int nvrtcGetProgramLogSize(void *program, size_t *size) { *size = sizeof message; return 0; }
int nvrtcGetProgramLog(void *program, char *to) { memcpy(to, message, sizeof message); return 0; }
const char *nvrtcGetErrorString(int code) { return code ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS"; }
