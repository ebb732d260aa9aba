//  kernels/cpu_vector_types.h - vectors of TV_BYTES, see cpu_vector.h

#define VECTOR(type) type __attribute__ ((vector_size (TV_BYTES)))

typedef VECTOR (uint8_t) s_vu8;
typedef VECTOR (uint32_t) s_vu32;
typedef VECTOR (uint64_t) s_vu64;
typedef VECTOR (int8_t) s_vi8;
typedef VECTOR (int32_t) s_vi32;
typedef VECTOR (int64_t) s_vi64;
typedef VECTOR (float) s_vf32;
typedef VECTOR (double) s_vf64;

//  As many 16 and 8 bit lanes as a vector has of 32 bit.
typedef uint16_t s_half_t __attribute__ ((vector_size (TV_BYTES / 2)));
typedef uint8_t s_quarter_t __attribute__ ((vector_size (TV_BYTES / 4)));
