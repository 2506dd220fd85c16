/* An NVRTC that compiles nothing: it accepts every program and returns a few lines of PTX. With
   driver.c it makes tests of failures fast, and possible without any part of CUDA.

   Environment variables:
     (compiled with -DINCOMPLETE, it lacks a function: cudarc then panics in CubeCL's thread)
     STAND_IN_NVRTC  the version, such as 12080 (default)
     STAND_IN_FAIL   compile:N:CODE: the N-th compilation (from 1) fails with CODE, and so does that
                     program whenever it is compiled again. The first compilation is that of the
                     lab's check of the compiler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { unsigned long long hash; char ptx[80]; } program;
static const char message[] = "default_program(1): error: a failure that the stand-in was told to make\n";

int nvrtcVersion(int *major, int *minor) {
    const char *text = getenv("STAND_IN_NVRTC");
    int version = text ? atoi(text) : 12080;
    *major = version / 1000;
    *minor = version % 1000 / 10;
    return 0;
}

int nvrtcCreateProgram(program **made, const char *source, const char *name, int count,
                       const char *const *headers, const char *const *names) {
    program *program = *made = calloc(1, sizeof(*program));
    program->hash = 14695981039346656037u; /* FNV-1a */
    for (; *source; source++) program->hash = (program->hash ^ (unsigned char)*source) * 1099511628211u;
    snprintf(program->ptx, sizeof program->ptx, ".version 8.0\n.target sm_80\n// program %llx\n", program->hash);
    return 0;
}
int nvrtcDestroyProgram(program **program) {
    free(*program);
    *program = NULL;
    return 0;
}
/* Programs are compiled one after the other, so a plain counter is enough. */
int nvrtcCompileProgram(program *program, int count, const char *const *options) {
    static int compiled;
    static unsigned long long failed;
    const char *text = getenv("STAND_IN_FAIL");
    int n, code;
    compiled++;
    if (text && sscanf(text, "compile:%d:%d", &n, &code) == 2) {
        if (n == compiled) {
            fprintf(stderr, "stand-in: failed compile %d\n", n);
            failed = program->hash;
        }
        if (failed == program->hash) return code;
    }
    return 0;
}
#ifndef INCOMPLETE
int nvrtcGetPTXSize(program *program, size_t *size) { *size = sizeof program->ptx; return 0; }
#endif
int nvrtcGetPTX(program *program, char *to) { memcpy(to, program->ptx, sizeof program->ptx); return 0; }
int nvrtcGetProgramLogSize(void *program, size_t *size) { *size = sizeof message; return 0; }
int nvrtcGetProgramLog(void *program, char *to) { memcpy(to, message, sizeof message); return 0; }
const char *nvrtcGetErrorString(int code) { return code ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS"; }
