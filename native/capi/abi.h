/* Generated from openrknn.vendor.tables; do not edit. A test makes it again and compares. */
#ifndef OPENRKNN_CAPI_ABI_H
#define OPENRKNN_CAPI_ABI_H
#include <stddef.h>
#include <stdint.h>

#include "include/rknn_custom_op.h"
#include "include/rknn_matmul_api.h"

#define NEWEST_ABI "2.5.0"

/* The version that a program was compiled for, and the sizes of the structs that differ. */
struct abi {
    uint32_t number;
    const char *name;
    uint16_t rknn_mem_size;
    uint16_t rknn_init_extend;
    uint16_t rknn_matmul_info;
};

#if UINTPTR_MAX > 0xffffffff
#define KNOWN_ABIS \
    {10300, "1.3.0", 8, 136, 24}, \
    {10400, "1.4.0", 64, 136, 24}, \
    {10500, "1.5.0", 64, 136, 24}, \
    {10502, "1.5.2", 64, 136, 24}, \
    {10600, "1.6.0", 64, 136, 24}, \
    {20000, "2.0.0-beta0", 64, 136, 64}, \
    {20100, "2.1.0", 64, 136, 64}, \
    {20200, "2.2.0", 64, 136, 64}, \
    {20300, "2.3.0", 64, 136, 64}, \
    {20302, "2.3.2", 64, 136, 64}, \
    {20500, "2.5.0", 64, 144, 64},

_Static_assert(sizeof(rknn_input_output_num) == 8, "rknn_input_output_num");
_Static_assert(offsetof(rknn_input_output_num, n_input) == 0, "rknn_input_output_num.n_input");
_Static_assert(offsetof(rknn_input_output_num, n_output) == 4, "rknn_input_output_num.n_output");
_Static_assert(sizeof(rknn_tensor_attr) == 376, "rknn_tensor_attr");
_Static_assert(offsetof(rknn_tensor_attr, index) == 0, "rknn_tensor_attr.index");
_Static_assert(offsetof(rknn_tensor_attr, n_dims) == 4, "rknn_tensor_attr.n_dims");
_Static_assert(offsetof(rknn_tensor_attr, dims) == 8, "rknn_tensor_attr.dims");
_Static_assert(offsetof(rknn_tensor_attr, name) == 72, "rknn_tensor_attr.name");
_Static_assert(offsetof(rknn_tensor_attr, n_elems) == 328, "rknn_tensor_attr.n_elems");
_Static_assert(offsetof(rknn_tensor_attr, size) == 332, "rknn_tensor_attr.size");
_Static_assert(offsetof(rknn_tensor_attr, fmt) == 336, "rknn_tensor_attr.fmt");
_Static_assert(offsetof(rknn_tensor_attr, type) == 340, "rknn_tensor_attr.type");
_Static_assert(offsetof(rknn_tensor_attr, qnt_type) == 344, "rknn_tensor_attr.qnt_type");
_Static_assert(offsetof(rknn_tensor_attr, fl) == 348, "rknn_tensor_attr.fl");
_Static_assert(offsetof(rknn_tensor_attr, zp) == 352, "rknn_tensor_attr.zp");
_Static_assert(offsetof(rknn_tensor_attr, scale) == 356, "rknn_tensor_attr.scale");
_Static_assert(offsetof(rknn_tensor_attr, w_stride) == 360, "rknn_tensor_attr.w_stride");
_Static_assert(offsetof(rknn_tensor_attr, size_with_stride) == 364, "rknn_tensor_attr.size_with_stride");
_Static_assert(offsetof(rknn_tensor_attr, pass_through) == 368, "rknn_tensor_attr.pass_through");
_Static_assert(offsetof(rknn_tensor_attr, h_stride) == 372, "rknn_tensor_attr.h_stride");
_Static_assert(sizeof(rknn_input_range) == 33040, "rknn_input_range");
_Static_assert(offsetof(rknn_input_range, index) == 0, "rknn_input_range.index");
_Static_assert(offsetof(rknn_input_range, shape_number) == 4, "rknn_input_range.shape_number");
_Static_assert(offsetof(rknn_input_range, fmt) == 8, "rknn_input_range.fmt");
_Static_assert(offsetof(rknn_input_range, name) == 12, "rknn_input_range.name");
_Static_assert(offsetof(rknn_input_range, dyn_range) == 268, "rknn_input_range.dyn_range");
_Static_assert(offsetof(rknn_input_range, n_dims) == 33036, "rknn_input_range.n_dims");
_Static_assert(sizeof(rknn_perf_detail) == 16, "rknn_perf_detail");
_Static_assert(offsetof(rknn_perf_detail, perf_data) == 0, "rknn_perf_detail.perf_data");
_Static_assert(offsetof(rknn_perf_detail, data_len) == 8, "rknn_perf_detail.data_len");
_Static_assert(sizeof(rknn_perf_run) == 8, "rknn_perf_run");
_Static_assert(offsetof(rknn_perf_run, run_duration) == 0, "rknn_perf_run.run_duration");
_Static_assert(sizeof(rknn_sdk_version) == 512, "rknn_sdk_version");
_Static_assert(offsetof(rknn_sdk_version, api_version) == 0, "rknn_sdk_version.api_version");
_Static_assert(offsetof(rknn_sdk_version, drv_version) == 256, "rknn_sdk_version.drv_version");
_Static_assert(sizeof(rknn_mem_size) == 64, "rknn_mem_size");
_Static_assert(offsetof(rknn_mem_size, total_weight_size) == 0, "rknn_mem_size.total_weight_size");
_Static_assert(offsetof(rknn_mem_size, total_internal_size) == 4, "rknn_mem_size.total_internal_size");
_Static_assert(offsetof(rknn_mem_size, total_dma_allocated_size) == 8, "rknn_mem_size.total_dma_allocated_size");
_Static_assert(offsetof(rknn_mem_size, total_sram_size) == 16, "rknn_mem_size.total_sram_size");
_Static_assert(offsetof(rknn_mem_size, free_sram_size) == 20, "rknn_mem_size.free_sram_size");
_Static_assert(offsetof(rknn_mem_size, reserved) == 24, "rknn_mem_size.reserved");
_Static_assert(sizeof(rknn_custom_string) == 1024, "rknn_custom_string");
_Static_assert(offsetof(rknn_custom_string, string) == 0, "rknn_custom_string.string");
_Static_assert(sizeof(rknn_tensor_mem) == 40, "rknn_tensor_mem");
_Static_assert(offsetof(rknn_tensor_mem, virt_addr) == 0, "rknn_tensor_mem.virt_addr");
_Static_assert(offsetof(rknn_tensor_mem, phys_addr) == 8, "rknn_tensor_mem.phys_addr");
_Static_assert(offsetof(rknn_tensor_mem, fd) == 16, "rknn_tensor_mem.fd");
_Static_assert(offsetof(rknn_tensor_mem, offset) == 20, "rknn_tensor_mem.offset");
_Static_assert(offsetof(rknn_tensor_mem, size) == 24, "rknn_tensor_mem.size");
_Static_assert(offsetof(rknn_tensor_mem, flags) == 28, "rknn_tensor_mem.flags");
_Static_assert(offsetof(rknn_tensor_mem, priv_data) == 32, "rknn_tensor_mem.priv_data");
_Static_assert(sizeof(rknn_input) == 32, "rknn_input");
_Static_assert(offsetof(rknn_input, index) == 0, "rknn_input.index");
_Static_assert(offsetof(rknn_input, buf) == 8, "rknn_input.buf");
_Static_assert(offsetof(rknn_input, size) == 16, "rknn_input.size");
_Static_assert(offsetof(rknn_input, pass_through) == 20, "rknn_input.pass_through");
_Static_assert(offsetof(rknn_input, type) == 24, "rknn_input.type");
_Static_assert(offsetof(rknn_input, fmt) == 28, "rknn_input.fmt");
_Static_assert(sizeof(rknn_output) == 24, "rknn_output");
_Static_assert(offsetof(rknn_output, want_float) == 0, "rknn_output.want_float");
_Static_assert(offsetof(rknn_output, is_prealloc) == 1, "rknn_output.is_prealloc");
_Static_assert(offsetof(rknn_output, index) == 4, "rknn_output.index");
_Static_assert(offsetof(rknn_output, buf) == 8, "rknn_output.buf");
_Static_assert(offsetof(rknn_output, size) == 16, "rknn_output.size");
_Static_assert(sizeof(rknn_init_extend) == 144, "rknn_init_extend");
_Static_assert(offsetof(rknn_init_extend, ctx) == 0, "rknn_init_extend.ctx");
_Static_assert(offsetof(rknn_init_extend, real_model_offset) == 8, "rknn_init_extend.real_model_offset");
_Static_assert(offsetof(rknn_init_extend, real_model_size) == 12, "rknn_init_extend.real_model_size");
_Static_assert(offsetof(rknn_init_extend, model_buffer_fd) == 16, "rknn_init_extend.model_buffer_fd");
_Static_assert(offsetof(rknn_init_extend, model_buffer_flags) == 20, "rknn_init_extend.model_buffer_flags");
_Static_assert(offsetof(rknn_init_extend, user_key) == 24, "rknn_init_extend.user_key");
_Static_assert(offsetof(rknn_init_extend, reserved) == 32, "rknn_init_extend.reserved");
_Static_assert(sizeof(rknn_decrypt_key_mem) == 16, "rknn_decrypt_key_mem");
_Static_assert(offsetof(rknn_decrypt_key_mem, key_data) == 0, "rknn_decrypt_key_mem.key_data");
_Static_assert(offsetof(rknn_decrypt_key_mem, key_size) == 8, "rknn_decrypt_key_mem.key_size");
_Static_assert(sizeof(rknn_run_extend) == 24, "rknn_run_extend");
_Static_assert(offsetof(rknn_run_extend, frame_id) == 0, "rknn_run_extend.frame_id");
_Static_assert(offsetof(rknn_run_extend, non_block) == 8, "rknn_run_extend.non_block");
_Static_assert(offsetof(rknn_run_extend, timeout_ms) == 12, "rknn_run_extend.timeout_ms");
_Static_assert(offsetof(rknn_run_extend, fence_fd) == 16, "rknn_run_extend.fence_fd");
_Static_assert(sizeof(rknn_output_extend) == 8, "rknn_output_extend");
_Static_assert(offsetof(rknn_output_extend, frame_id) == 0, "rknn_output_extend.frame_id");
_Static_assert(sizeof(rknn_quant_params) == 288, "rknn_quant_params");
_Static_assert(offsetof(rknn_quant_params, name) == 0, "rknn_quant_params.name");
_Static_assert(offsetof(rknn_quant_params, scale) == 256, "rknn_quant_params.scale");
_Static_assert(offsetof(rknn_quant_params, scale_len) == 264, "rknn_quant_params.scale_len");
_Static_assert(offsetof(rknn_quant_params, zp) == 272, "rknn_quant_params.zp");
_Static_assert(offsetof(rknn_quant_params, zp_len) == 280, "rknn_quant_params.zp_len");
_Static_assert(sizeof(rknn_matmul_tensor_attr) == 332, "rknn_matmul_tensor_attr");
_Static_assert(offsetof(rknn_matmul_tensor_attr, name) == 0, "rknn_matmul_tensor_attr.name");
_Static_assert(offsetof(rknn_matmul_tensor_attr, n_dims) == 256, "rknn_matmul_tensor_attr.n_dims");
_Static_assert(offsetof(rknn_matmul_tensor_attr, dims) == 260, "rknn_matmul_tensor_attr.dims");
_Static_assert(offsetof(rknn_matmul_tensor_attr, size) == 324, "rknn_matmul_tensor_attr.size");
_Static_assert(offsetof(rknn_matmul_tensor_attr, type) == 328, "rknn_matmul_tensor_attr.type");
_Static_assert(sizeof(rknn_matmul_io_attr) == 996, "rknn_matmul_io_attr");
_Static_assert(offsetof(rknn_matmul_io_attr, A) == 0, "rknn_matmul_io_attr.A");
_Static_assert(offsetof(rknn_matmul_io_attr, B) == 332, "rknn_matmul_io_attr.B");
_Static_assert(offsetof(rknn_matmul_io_attr, C) == 664, "rknn_matmul_io_attr.C");
_Static_assert(sizeof(rknn_matmul_shape) == 12, "rknn_matmul_shape");
_Static_assert(offsetof(rknn_matmul_shape, M) == 0, "rknn_matmul_shape.M");
_Static_assert(offsetof(rknn_matmul_shape, K) == 4, "rknn_matmul_shape.K");
_Static_assert(offsetof(rknn_matmul_shape, N) == 8, "rknn_matmul_shape.N");
_Static_assert(sizeof(rknn_matmul_info) == 64, "rknn_matmul_info");
_Static_assert(offsetof(rknn_matmul_info, M) == 0, "rknn_matmul_info.M");
_Static_assert(offsetof(rknn_matmul_info, K) == 4, "rknn_matmul_info.K");
_Static_assert(offsetof(rknn_matmul_info, N) == 8, "rknn_matmul_info.N");
_Static_assert(offsetof(rknn_matmul_info, type) == 12, "rknn_matmul_info.type");
_Static_assert(offsetof(rknn_matmul_info, B_layout) == 16, "rknn_matmul_info.B_layout");
_Static_assert(offsetof(rknn_matmul_info, B_quant_type) == 18, "rknn_matmul_info.B_quant_type");
_Static_assert(offsetof(rknn_matmul_info, AC_layout) == 20, "rknn_matmul_info.AC_layout");
_Static_assert(offsetof(rknn_matmul_info, AC_quant_type) == 22, "rknn_matmul_info.AC_quant_type");
_Static_assert(offsetof(rknn_matmul_info, iommu_domain_id) == 24, "rknn_matmul_info.iommu_domain_id");
_Static_assert(offsetof(rknn_matmul_info, group_size) == 28, "rknn_matmul_info.group_size");
_Static_assert(offsetof(rknn_matmul_info, reserved) == 30, "rknn_matmul_info.reserved");
_Static_assert(sizeof(rknn_gpu_op_context) == 24, "rknn_gpu_op_context");
_Static_assert(offsetof(rknn_gpu_op_context, cl_context) == 0, "rknn_gpu_op_context.cl_context");
_Static_assert(offsetof(rknn_gpu_op_context, cl_command_queue) == 8, "rknn_gpu_op_context.cl_command_queue");
_Static_assert(offsetof(rknn_gpu_op_context, cl_kernel) == 16, "rknn_gpu_op_context.cl_kernel");
_Static_assert(sizeof(rknn_custom_op_context) == 48, "rknn_custom_op_context");
_Static_assert(offsetof(rknn_custom_op_context, target) == 0, "rknn_custom_op_context.target");
_Static_assert(offsetof(rknn_custom_op_context, internal_ctx) == 8, "rknn_custom_op_context.internal_ctx");
_Static_assert(offsetof(rknn_custom_op_context, gpu_ctx) == 16, "rknn_custom_op_context.gpu_ctx");
_Static_assert(offsetof(rknn_custom_op_context, priv_data) == 40, "rknn_custom_op_context.priv_data");
_Static_assert(sizeof(rknn_custom_op_tensor) == 416, "rknn_custom_op_tensor");
_Static_assert(offsetof(rknn_custom_op_tensor, attr) == 0, "rknn_custom_op_tensor.attr");
_Static_assert(offsetof(rknn_custom_op_tensor, mem) == 376, "rknn_custom_op_tensor.mem");
_Static_assert(sizeof(rknn_custom_op_attr) == 272, "rknn_custom_op_attr");
_Static_assert(offsetof(rknn_custom_op_attr, name) == 0, "rknn_custom_op_attr.name");
_Static_assert(offsetof(rknn_custom_op_attr, dtype) == 256, "rknn_custom_op_attr.dtype");
_Static_assert(offsetof(rknn_custom_op_attr, n_elems) == 260, "rknn_custom_op_attr.n_elems");
_Static_assert(offsetof(rknn_custom_op_attr, data) == 264, "rknn_custom_op_attr.data");
_Static_assert(sizeof(rknn_custom_op) == 832, "rknn_custom_op");
_Static_assert(offsetof(rknn_custom_op, version) == 0, "rknn_custom_op.version");
_Static_assert(offsetof(rknn_custom_op, target) == 4, "rknn_custom_op.target");
_Static_assert(offsetof(rknn_custom_op, op_type) == 8, "rknn_custom_op.op_type");
_Static_assert(offsetof(rknn_custom_op, cl_kernel_name) == 264, "rknn_custom_op.cl_kernel_name");
_Static_assert(offsetof(rknn_custom_op, cl_kernel_source) == 520, "rknn_custom_op.cl_kernel_source");
_Static_assert(offsetof(rknn_custom_op, cl_source_size) == 528, "rknn_custom_op.cl_source_size");
_Static_assert(offsetof(rknn_custom_op, cl_build_options) == 536, "rknn_custom_op.cl_build_options");
_Static_assert(offsetof(rknn_custom_op, init) == 792, "rknn_custom_op.init");
_Static_assert(offsetof(rknn_custom_op, prepare) == 800, "rknn_custom_op.prepare");
_Static_assert(offsetof(rknn_custom_op, compute) == 808, "rknn_custom_op.compute");
_Static_assert(offsetof(rknn_custom_op, compute_native) == 816, "rknn_custom_op.compute_native");
_Static_assert(offsetof(rknn_custom_op, destroy) == 824, "rknn_custom_op.destroy");
#else
#define KNOWN_ABIS \
    {10300, "1.3.0", 8, 132, 24}, \
    {10400, "1.4.0", 64, 132, 24}, \
    {10500, "1.5.0", 64, 132, 24}, \
    {10502, "1.5.2", 64, 132, 24}, \
    {10600, "1.6.0", 64, 132, 24}, \
    {20000, "2.0.0-beta0", 64, 132, 64}, \
    {20100, "2.1.0", 64, 132, 64}, \
    {20200, "2.2.0", 64, 132, 64}, \
    {20300, "2.3.0", 64, 132, 64}, \
    {20302, "2.3.2", 64, 132, 64}, \
    {20500, "2.5.0", 64, 136, 64},

_Static_assert(sizeof(rknn_input_output_num) == 8, "rknn_input_output_num");
_Static_assert(offsetof(rknn_input_output_num, n_input) == 0, "rknn_input_output_num.n_input");
_Static_assert(offsetof(rknn_input_output_num, n_output) == 4, "rknn_input_output_num.n_output");
_Static_assert(sizeof(rknn_tensor_attr) == 376, "rknn_tensor_attr");
_Static_assert(offsetof(rknn_tensor_attr, index) == 0, "rknn_tensor_attr.index");
_Static_assert(offsetof(rknn_tensor_attr, n_dims) == 4, "rknn_tensor_attr.n_dims");
_Static_assert(offsetof(rknn_tensor_attr, dims) == 8, "rknn_tensor_attr.dims");
_Static_assert(offsetof(rknn_tensor_attr, name) == 72, "rknn_tensor_attr.name");
_Static_assert(offsetof(rknn_tensor_attr, n_elems) == 328, "rknn_tensor_attr.n_elems");
_Static_assert(offsetof(rknn_tensor_attr, size) == 332, "rknn_tensor_attr.size");
_Static_assert(offsetof(rknn_tensor_attr, fmt) == 336, "rknn_tensor_attr.fmt");
_Static_assert(offsetof(rknn_tensor_attr, type) == 340, "rknn_tensor_attr.type");
_Static_assert(offsetof(rknn_tensor_attr, qnt_type) == 344, "rknn_tensor_attr.qnt_type");
_Static_assert(offsetof(rknn_tensor_attr, fl) == 348, "rknn_tensor_attr.fl");
_Static_assert(offsetof(rknn_tensor_attr, zp) == 352, "rknn_tensor_attr.zp");
_Static_assert(offsetof(rknn_tensor_attr, scale) == 356, "rknn_tensor_attr.scale");
_Static_assert(offsetof(rknn_tensor_attr, w_stride) == 360, "rknn_tensor_attr.w_stride");
_Static_assert(offsetof(rknn_tensor_attr, size_with_stride) == 364, "rknn_tensor_attr.size_with_stride");
_Static_assert(offsetof(rknn_tensor_attr, pass_through) == 368, "rknn_tensor_attr.pass_through");
_Static_assert(offsetof(rknn_tensor_attr, h_stride) == 372, "rknn_tensor_attr.h_stride");
_Static_assert(sizeof(rknn_input_range) == 33040, "rknn_input_range");
_Static_assert(offsetof(rknn_input_range, index) == 0, "rknn_input_range.index");
_Static_assert(offsetof(rknn_input_range, shape_number) == 4, "rknn_input_range.shape_number");
_Static_assert(offsetof(rknn_input_range, fmt) == 8, "rknn_input_range.fmt");
_Static_assert(offsetof(rknn_input_range, name) == 12, "rknn_input_range.name");
_Static_assert(offsetof(rknn_input_range, dyn_range) == 268, "rknn_input_range.dyn_range");
_Static_assert(offsetof(rknn_input_range, n_dims) == 33036, "rknn_input_range.n_dims");
_Static_assert(sizeof(rknn_perf_detail) == 16, "rknn_perf_detail");
_Static_assert(offsetof(rknn_perf_detail, perf_data) == 0, "rknn_perf_detail.perf_data");
_Static_assert(offsetof(rknn_perf_detail, data_len) == 8, "rknn_perf_detail.data_len");
_Static_assert(sizeof(rknn_perf_run) == 8, "rknn_perf_run");
_Static_assert(offsetof(rknn_perf_run, run_duration) == 0, "rknn_perf_run.run_duration");
_Static_assert(sizeof(rknn_sdk_version) == 512, "rknn_sdk_version");
_Static_assert(offsetof(rknn_sdk_version, api_version) == 0, "rknn_sdk_version.api_version");
_Static_assert(offsetof(rknn_sdk_version, drv_version) == 256, "rknn_sdk_version.drv_version");
_Static_assert(sizeof(rknn_mem_size) == 64, "rknn_mem_size");
_Static_assert(offsetof(rknn_mem_size, total_weight_size) == 0, "rknn_mem_size.total_weight_size");
_Static_assert(offsetof(rknn_mem_size, total_internal_size) == 4, "rknn_mem_size.total_internal_size");
_Static_assert(offsetof(rknn_mem_size, total_dma_allocated_size) == 8, "rknn_mem_size.total_dma_allocated_size");
_Static_assert(offsetof(rknn_mem_size, total_sram_size) == 16, "rknn_mem_size.total_sram_size");
_Static_assert(offsetof(rknn_mem_size, free_sram_size) == 20, "rknn_mem_size.free_sram_size");
_Static_assert(offsetof(rknn_mem_size, reserved) == 24, "rknn_mem_size.reserved");
_Static_assert(sizeof(rknn_custom_string) == 1024, "rknn_custom_string");
_Static_assert(offsetof(rknn_custom_string, string) == 0, "rknn_custom_string.string");
_Static_assert(sizeof(rknn_tensor_mem) == 40, "rknn_tensor_mem");
_Static_assert(offsetof(rknn_tensor_mem, virt_addr) == 0, "rknn_tensor_mem.virt_addr");
_Static_assert(offsetof(rknn_tensor_mem, phys_addr) == 8, "rknn_tensor_mem.phys_addr");
_Static_assert(offsetof(rknn_tensor_mem, fd) == 16, "rknn_tensor_mem.fd");
_Static_assert(offsetof(rknn_tensor_mem, offset) == 20, "rknn_tensor_mem.offset");
_Static_assert(offsetof(rknn_tensor_mem, size) == 24, "rknn_tensor_mem.size");
_Static_assert(offsetof(rknn_tensor_mem, flags) == 28, "rknn_tensor_mem.flags");
_Static_assert(offsetof(rknn_tensor_mem, priv_data) == 32, "rknn_tensor_mem.priv_data");
_Static_assert(sizeof(rknn_input) == 24, "rknn_input");
_Static_assert(offsetof(rknn_input, index) == 0, "rknn_input.index");
_Static_assert(offsetof(rknn_input, buf) == 4, "rknn_input.buf");
_Static_assert(offsetof(rknn_input, size) == 8, "rknn_input.size");
_Static_assert(offsetof(rknn_input, pass_through) == 12, "rknn_input.pass_through");
_Static_assert(offsetof(rknn_input, type) == 16, "rknn_input.type");
_Static_assert(offsetof(rknn_input, fmt) == 20, "rknn_input.fmt");
_Static_assert(sizeof(rknn_output) == 16, "rknn_output");
_Static_assert(offsetof(rknn_output, want_float) == 0, "rknn_output.want_float");
_Static_assert(offsetof(rknn_output, is_prealloc) == 1, "rknn_output.is_prealloc");
_Static_assert(offsetof(rknn_output, index) == 4, "rknn_output.index");
_Static_assert(offsetof(rknn_output, buf) == 8, "rknn_output.buf");
_Static_assert(offsetof(rknn_output, size) == 12, "rknn_output.size");
_Static_assert(sizeof(rknn_init_extend) == 136, "rknn_init_extend");
_Static_assert(offsetof(rknn_init_extend, ctx) == 0, "rknn_init_extend.ctx");
_Static_assert(offsetof(rknn_init_extend, real_model_offset) == 4, "rknn_init_extend.real_model_offset");
_Static_assert(offsetof(rknn_init_extend, real_model_size) == 8, "rknn_init_extend.real_model_size");
_Static_assert(offsetof(rknn_init_extend, model_buffer_fd) == 12, "rknn_init_extend.model_buffer_fd");
_Static_assert(offsetof(rknn_init_extend, model_buffer_flags) == 16, "rknn_init_extend.model_buffer_flags");
_Static_assert(offsetof(rknn_init_extend, user_key) == 20, "rknn_init_extend.user_key");
_Static_assert(offsetof(rknn_init_extend, reserved) == 24, "rknn_init_extend.reserved");
_Static_assert(sizeof(rknn_decrypt_key_mem) == 8, "rknn_decrypt_key_mem");
_Static_assert(offsetof(rknn_decrypt_key_mem, key_data) == 0, "rknn_decrypt_key_mem.key_data");
_Static_assert(offsetof(rknn_decrypt_key_mem, key_size) == 4, "rknn_decrypt_key_mem.key_size");
_Static_assert(sizeof(rknn_run_extend) == 24, "rknn_run_extend");
_Static_assert(offsetof(rknn_run_extend, frame_id) == 0, "rknn_run_extend.frame_id");
_Static_assert(offsetof(rknn_run_extend, non_block) == 8, "rknn_run_extend.non_block");
_Static_assert(offsetof(rknn_run_extend, timeout_ms) == 12, "rknn_run_extend.timeout_ms");
_Static_assert(offsetof(rknn_run_extend, fence_fd) == 16, "rknn_run_extend.fence_fd");
_Static_assert(sizeof(rknn_output_extend) == 8, "rknn_output_extend");
_Static_assert(offsetof(rknn_output_extend, frame_id) == 0, "rknn_output_extend.frame_id");
_Static_assert(sizeof(rknn_quant_params) == 272, "rknn_quant_params");
_Static_assert(offsetof(rknn_quant_params, name) == 0, "rknn_quant_params.name");
_Static_assert(offsetof(rknn_quant_params, scale) == 256, "rknn_quant_params.scale");
_Static_assert(offsetof(rknn_quant_params, scale_len) == 260, "rknn_quant_params.scale_len");
_Static_assert(offsetof(rknn_quant_params, zp) == 264, "rknn_quant_params.zp");
_Static_assert(offsetof(rknn_quant_params, zp_len) == 268, "rknn_quant_params.zp_len");
_Static_assert(sizeof(rknn_matmul_tensor_attr) == 332, "rknn_matmul_tensor_attr");
_Static_assert(offsetof(rknn_matmul_tensor_attr, name) == 0, "rknn_matmul_tensor_attr.name");
_Static_assert(offsetof(rknn_matmul_tensor_attr, n_dims) == 256, "rknn_matmul_tensor_attr.n_dims");
_Static_assert(offsetof(rknn_matmul_tensor_attr, dims) == 260, "rknn_matmul_tensor_attr.dims");
_Static_assert(offsetof(rknn_matmul_tensor_attr, size) == 324, "rknn_matmul_tensor_attr.size");
_Static_assert(offsetof(rknn_matmul_tensor_attr, type) == 328, "rknn_matmul_tensor_attr.type");
_Static_assert(sizeof(rknn_matmul_io_attr) == 996, "rknn_matmul_io_attr");
_Static_assert(offsetof(rknn_matmul_io_attr, A) == 0, "rknn_matmul_io_attr.A");
_Static_assert(offsetof(rknn_matmul_io_attr, B) == 332, "rknn_matmul_io_attr.B");
_Static_assert(offsetof(rknn_matmul_io_attr, C) == 664, "rknn_matmul_io_attr.C");
_Static_assert(sizeof(rknn_matmul_shape) == 12, "rknn_matmul_shape");
_Static_assert(offsetof(rknn_matmul_shape, M) == 0, "rknn_matmul_shape.M");
_Static_assert(offsetof(rknn_matmul_shape, K) == 4, "rknn_matmul_shape.K");
_Static_assert(offsetof(rknn_matmul_shape, N) == 8, "rknn_matmul_shape.N");
_Static_assert(sizeof(rknn_matmul_info) == 64, "rknn_matmul_info");
_Static_assert(offsetof(rknn_matmul_info, M) == 0, "rknn_matmul_info.M");
_Static_assert(offsetof(rknn_matmul_info, K) == 4, "rknn_matmul_info.K");
_Static_assert(offsetof(rknn_matmul_info, N) == 8, "rknn_matmul_info.N");
_Static_assert(offsetof(rknn_matmul_info, type) == 12, "rknn_matmul_info.type");
_Static_assert(offsetof(rknn_matmul_info, B_layout) == 16, "rknn_matmul_info.B_layout");
_Static_assert(offsetof(rknn_matmul_info, B_quant_type) == 18, "rknn_matmul_info.B_quant_type");
_Static_assert(offsetof(rknn_matmul_info, AC_layout) == 20, "rknn_matmul_info.AC_layout");
_Static_assert(offsetof(rknn_matmul_info, AC_quant_type) == 22, "rknn_matmul_info.AC_quant_type");
_Static_assert(offsetof(rknn_matmul_info, iommu_domain_id) == 24, "rknn_matmul_info.iommu_domain_id");
_Static_assert(offsetof(rknn_matmul_info, group_size) == 28, "rknn_matmul_info.group_size");
_Static_assert(offsetof(rknn_matmul_info, reserved) == 30, "rknn_matmul_info.reserved");
_Static_assert(sizeof(rknn_gpu_op_context) == 12, "rknn_gpu_op_context");
_Static_assert(offsetof(rknn_gpu_op_context, cl_context) == 0, "rknn_gpu_op_context.cl_context");
_Static_assert(offsetof(rknn_gpu_op_context, cl_command_queue) == 4, "rknn_gpu_op_context.cl_command_queue");
_Static_assert(offsetof(rknn_gpu_op_context, cl_kernel) == 8, "rknn_gpu_op_context.cl_kernel");
_Static_assert(sizeof(rknn_custom_op_context) == 24, "rknn_custom_op_context");
_Static_assert(offsetof(rknn_custom_op_context, target) == 0, "rknn_custom_op_context.target");
_Static_assert(offsetof(rknn_custom_op_context, internal_ctx) == 4, "rknn_custom_op_context.internal_ctx");
_Static_assert(offsetof(rknn_custom_op_context, gpu_ctx) == 8, "rknn_custom_op_context.gpu_ctx");
_Static_assert(offsetof(rknn_custom_op_context, priv_data) == 20, "rknn_custom_op_context.priv_data");
_Static_assert(sizeof(rknn_custom_op_tensor) == 416, "rknn_custom_op_tensor");
_Static_assert(offsetof(rknn_custom_op_tensor, attr) == 0, "rknn_custom_op_tensor.attr");
_Static_assert(offsetof(rknn_custom_op_tensor, mem) == 376, "rknn_custom_op_tensor.mem");
_Static_assert(sizeof(rknn_custom_op_attr) == 268, "rknn_custom_op_attr");
_Static_assert(offsetof(rknn_custom_op_attr, name) == 0, "rknn_custom_op_attr.name");
_Static_assert(offsetof(rknn_custom_op_attr, dtype) == 256, "rknn_custom_op_attr.dtype");
_Static_assert(offsetof(rknn_custom_op_attr, n_elems) == 260, "rknn_custom_op_attr.n_elems");
_Static_assert(offsetof(rknn_custom_op_attr, data) == 264, "rknn_custom_op_attr.data");
_Static_assert(sizeof(rknn_custom_op) == 816, "rknn_custom_op");
_Static_assert(offsetof(rknn_custom_op, version) == 0, "rknn_custom_op.version");
_Static_assert(offsetof(rknn_custom_op, target) == 4, "rknn_custom_op.target");
_Static_assert(offsetof(rknn_custom_op, op_type) == 8, "rknn_custom_op.op_type");
_Static_assert(offsetof(rknn_custom_op, cl_kernel_name) == 264, "rknn_custom_op.cl_kernel_name");
_Static_assert(offsetof(rknn_custom_op, cl_kernel_source) == 520, "rknn_custom_op.cl_kernel_source");
_Static_assert(offsetof(rknn_custom_op, cl_source_size) == 528, "rknn_custom_op.cl_source_size");
_Static_assert(offsetof(rknn_custom_op, cl_build_options) == 536, "rknn_custom_op.cl_build_options");
_Static_assert(offsetof(rknn_custom_op, init) == 792, "rknn_custom_op.init");
_Static_assert(offsetof(rknn_custom_op, prepare) == 796, "rknn_custom_op.prepare");
_Static_assert(offsetof(rknn_custom_op, compute) == 800, "rknn_custom_op.compute");
_Static_assert(offsetof(rknn_custom_op, compute_native) == 804, "rknn_custom_op.compute_native");
_Static_assert(offsetof(rknn_custom_op, destroy) == 808, "rknn_custom_op.destroy");
#endif

/* How much of `info` the engine may have to see. */
#define QUERY_SIZES(abi) \
    case RKNN_QUERY_IN_OUT_NUM: return sizeof(rknn_input_output_num); \
    case RKNN_QUERY_INPUT_ATTR: return sizeof(rknn_tensor_attr); \
    case RKNN_QUERY_OUTPUT_ATTR: return sizeof(rknn_tensor_attr); \
    case RKNN_QUERY_PERF_DETAIL: return sizeof(rknn_perf_detail); \
    case RKNN_QUERY_PERF_RUN: return sizeof(rknn_perf_run); \
    case RKNN_QUERY_SDK_VERSION: return sizeof(rknn_sdk_version); \
    case RKNN_QUERY_MEM_SIZE: return (abi)->rknn_mem_size; \
    case RKNN_QUERY_CUSTOM_STRING: return sizeof(rknn_custom_string); \
    case RKNN_QUERY_NATIVE_INPUT_ATTR: return sizeof(rknn_tensor_attr); \
    case RKNN_QUERY_NATIVE_OUTPUT_ATTR: return sizeof(rknn_tensor_attr); \
    case RKNN_QUERY_NATIVE_NHWC_INPUT_ATTR: return sizeof(rknn_tensor_attr); \
    case RKNN_QUERY_NATIVE_NHWC_OUTPUT_ATTR: return sizeof(rknn_tensor_attr); \
    case RKNN_QUERY_DEVICE_MEM_INFO: return sizeof(rknn_tensor_mem); \
    case RKNN_QUERY_INPUT_DYNAMIC_RANGE: return sizeof(rknn_input_range); \
    case RKNN_QUERY_CURRENT_INPUT_ATTR: return sizeof(rknn_tensor_attr); \
    case RKNN_QUERY_CURRENT_OUTPUT_ATTR: return sizeof(rknn_tensor_attr); \
    case RKNN_QUERY_CURRENT_NATIVE_INPUT_ATTR: return sizeof(rknn_tensor_attr); \
    case RKNN_QUERY_CURRENT_NATIVE_OUTPUT_ATTR: return sizeof(rknn_tensor_attr); \

/* Bits of an element of B. */
#define MATRIX_B_BITS \
    case RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT32: return 16; \
    case RKNN_INT8_MM_INT8_TO_INT32: return 8; \
    case RKNN_INT8_MM_INT8_TO_INT8: return 8; \
    case RKNN_FLOAT16_MM_FLOAT16_TO_FLOAT16: return 16; \
    case RKNN_FLOAT16_MM_INT8_TO_FLOAT32: return 8; \
    case RKNN_FLOAT16_MM_INT8_TO_FLOAT16: return 8; \
    case RKNN_FLOAT16_MM_INT4_TO_FLOAT32: return 4; \
    case RKNN_FLOAT16_MM_INT4_TO_FLOAT16: return 4; \
    case RKNN_INT8_MM_INT8_TO_FLOAT32: return 8; \
    case RKNN_INT4_MM_INT4_TO_INT16: return 4; \
    case RKNN_INT8_MM_INT4_TO_INT32: return 4; \
    case RKNN_FLOAT16_MM_INT4_TO_BFLOAT16: return 4; \
    case RKNN_INT8_MM_INT4_TO_FLOAT16: return 4; \

enum { ABI_B_TAKES_INFO = 20100, ABI_MODEL_OFFSET = 10500, ABI_MODEL_BUFFER = 20100, ABI_USER_KEY = 20400 };

#endif
