/* The functions for matrix products, of all versions. */

static rknn_matmul_tensor_attr matrix(const char *name, int native, int type, uint32_t rows, uint32_t columns) {
    static const int bits[] = {32, 16, 8, 8, 16, 16, 32, 32, 64, 8, 4, 16};
    rknn_matmul_tensor_attr a = {.type = type, .size = (uint32_t)((uint64_t)rows * columns * (unsigned)bits[type] / 8)};
    snprintf(a.name, sizeof a.name, "%s", name);
    if (!native) { a.n_dims = 2, a.dims[0] = rows, a.dims[1] = columns; return a; }
    if (name[0] == 'B') {
        uint32_t n2 = type == RKNN_TENSOR_INT4 ? 64 : type == RKNN_TENSOR_INT8 ? 32 : 16;
        a.n_dims = 4, a.dims[0] = columns / n2, a.dims[1] = rows / 32, a.dims[2] = n2, a.dims[3] = 32;
    } else {
        uint32_t c2 = name[0] == 'C' ? 4 : (uint32_t)(128 / bits[type]);
        a.n_dims = 3, a.dims[0] = columns / c2, a.dims[1] = rows, a.dims[2] = c2;
    }
    return a;
}

static void matrix_types(int type, int types[3]) {
    static const int table[16][3] = {
        [1] = {1, 1, 0}, [2] = {2, 2, 6}, [3] = {2, 2, 2}, [4] = {1, 1, 1}, [5] = {1, 2, 0}, [6] = {1, 2, 1},
        [7] = {1, 10, 0}, [8] = {1, 10, 1}, [9] = {2, 2, 0}, [10] = {10, 10, 4}, [11] = {2, 10, 6}, [12] = {1, 10, 11},
        [15] = {2, 10, 1}};
    memcpy(types, table[type & 15], sizeof table[0]);
}

static void layouts(const rknn_matmul_info *info, int *b, int *ac) {
#if API < 160
    *b = info->native_layout, *ac = info->perf_layout;
#else
    *b = info->B_layout, *ac = info->AC_layout;
#endif
}

static void describe(const rknn_matmul_info *info, rknn_matmul_shape shape, rknn_matmul_io_attr *answer) {
    int types[3], b, ac;
    matrix_types(info->type, types);
    layouts(info, &b, &ac);
    answer->A = matrix("A", ac == 1, types[0], (uint32_t)shape.M, (uint32_t)shape.K);
    answer->B = b == 2 ? matrix("B", 0, types[1], (uint32_t)shape.N, (uint32_t)shape.K)
                       : matrix("B", b == 1, types[1], (uint32_t)shape.K, (uint32_t)shape.N);
    answer->C = matrix("C", ac == 1, types[2], (uint32_t)shape.M, (uint32_t)shape.N);
}

static void note_info(const rknn_matmul_info *info) {
    int b, ac;
    layouts(info, &b, &ac);
    note(" M=%d K=%d N=%d type=%d B_layout=%d AC_layout=%d", info->M, info->K, info->N, info->type, b, ac);
#if API >= 200
    note(" B_quant=%d AC_quant=%d iommu=%d", info->B_quant_type, info->AC_quant_type, info->iommu_domain_id);
#endif
#if API >= 210
    note(" group=%d", info->group_size);
#endif
    note("\n");
}

int rknn_matmul_create(rknn_matmul_ctx *ctx, rknn_matmul_info *info, rknn_matmul_io_attr *io_attr) {
    note("rknn_matmul_create");
    note_info(info);
    FAIL_IF_ASKED;
    struct context *context;
    *ctx = allocate(&context);
    context->matmul = 1;
    context->info = *info;
    context->shapes[0] = (rknn_matmul_shape){info->M, info->K, info->N};
    describe(info, context->shapes[0], io_attr);
    return SUCC;
}

int rknn_matmul_set_io_mem(rknn_matmul_ctx ctx, rknn_tensor_mem *mem, rknn_matmul_tensor_attr *attr) {
    note("rknn_matmul_set_io_mem size=%u name=%s\n", mem->size, attr->name);
    CONTEXT_OR_FAIL(ctx);
    FAIL_IF_ASKED;
    context->memories[attr->name[0] - 'A'] = mem;
    return SUCC;
}

int rknn_matmul_set_core_mask(rknn_matmul_ctx ctx, rknn_core_mask mask) {
    note("rknn_matmul_set_core_mask mask=%d\n", (int)mask);
    CONTEXT_OR_FAIL(ctx);
    (void)context;
    FAIL_IF_ASKED;
    return SUCC;
}

/* Only int8 x int8 -> int32 is computed, from and to any layout. */
int rknn_matmul_run(rknn_matmul_ctx ctx) {
    note("rknn_matmul_run\n");
    CONTEXT_OR_FAIL(ctx);
    FAIL_IF_ASKED;
    int b, ac, m = context->shapes[0].M, k = context->shapes[0].K, n = context->shapes[0].N;
    layouts(&context->info, &b, &ac);
    if (context->info.type != 2) return SUCC;
    const int8_t *left = context->memories[0]->virt_addr, *right = context->memories[1]->virt_addr;
    int32_t *result = context->memories[2]->virt_addr;
    for (int row = 0; row < m; row++)
        for (int column = 0; column < n; column++) {
            int32_t sum = 0;
            for (int i = 0; i < k; i++) {
                int at = ac == 1 ? (i / 16 * m + row) * 16 + i % 16 : row * k + i;
                int from = b == 1 ? ((column / 32 * (k / 32) + i / 32) * 32 + column % 32) * 32 + i % 32
                         : b == 2 ? column * k + i : i * n + column;
                sum += left[at] * right[from];
            }
            result[ac == 1 ? (column / 4 * m + row) * 4 + column % 4 : row * n + column] = sum;
        }
    return SUCC;
}

int rknn_matmul_destroy(rknn_matmul_ctx ctx) {
    note("rknn_matmul_destroy ctx=%llu\n", (unsigned long long)ctx);
    CONTEXT_OR_FAIL(ctx);
    context->used = 0;
    FAIL_IF_ASKED;
    return SUCC;
}

#if API >= 200
#if API >= 210
#define CREATE_DYNAMIC rknn_matmul_create_dynamic_shape
#else
#define CREATE_DYNAMIC rknn_matmul_create_dyn_shape
#endif
int CREATE_DYNAMIC(rknn_matmul_ctx *ctx, rknn_matmul_info *info, int shape_num, rknn_matmul_shape shapes[],
                   rknn_matmul_io_attr io_attrs[]) {
    note("%s n=%d", __func__, shape_num);
    for (int i = 0; i < shape_num; i++) note(" [%d %d %d]", shapes[i].M, shapes[i].K, shapes[i].N);
    note_info(info);
    FAIL_IF_ASKED;
    struct context *context;
    *ctx = allocate(&context);
    context->matmul = 1;
    context->info = *info;
    for (int i = 0; i < shape_num; i++) describe(info, shapes[i], &io_attrs[i]);
    return SUCC;
}

int rknn_matmul_set_dynamic_shape(rknn_matmul_ctx ctx, rknn_matmul_shape *shape) {
    note("rknn_matmul_set_dynamic_shape %d %d %d\n", shape->M, shape->K, shape->N);
    CONTEXT_OR_FAIL(ctx);
    FAIL_IF_ASKED;
    context->shapes[0] = *shape;
    return SUCC;
}

int rknn_matmul_set_quant_params(rknn_matmul_ctx ctx, rknn_quant_params *params) {
    note("rknn_matmul_set_quant_params name=%s scale=%d:%g..%g zp=%d:%d..%d\n", params->name, params->scale_len,
         params->scale[0], params->scale[params->scale_len - 1], params->zp_len, params->zp[0],
         params->zp[params->zp_len - 1]);
    CONTEXT_OR_FAIL(ctx);
    (void)context;
    FAIL_IF_ASKED;
    return SUCC;
}

int rknn_matmul_get_quant_params(rknn_matmul_ctx ctx, rknn_quant_params *params, float *scale) {
    note("rknn_matmul_get_quant_params name=%s n=%d\n", params->name, params->scale_len);
    CONTEXT_OR_FAIL(ctx);
    (void)context;
    FAIL_IF_ASKED;
    *scale = 0;
    for (int i = 0; i < params->scale_len; i++) if (params->scale[i] > *scale) *scale = params->scale[i];
    return SUCC;
}

/* One byte per number: enough for int8. */
static void to_native(const int8_t *from, int8_t *to, int k, int n, int n2, int k2) {
    for (int row = 0; row < k; row++)
        for (int column = 0; column < n; column++)
            to[((column / n2 * (k / k2) + row / k2) * n2 + column % n2) * k2 + row % k2] = from[row * n + column];
}
#if API >= 210
int rknn_B_normal_layout_to_native_layout(void *B_input, void *B_output, int K, int N, rknn_matmul_info *info) {
    note("rknn_B_normal_layout_to_native_layout K=%d N=%d info=%d", K, N, info->type);
    to_native(B_input, B_output, K, N, 32, 32);
#else
int rknn_B_normal_layout_to_native_layout(void *B_input, void *B_output, int K, int N, int subN, int subK,
                                          rknn_matmul_type type) {
    note("rknn_B_normal_layout_to_native_layout K=%d N=%d subN=%d subK=%d type=%d", K, N, subN, subK, type);
    to_native(B_input, B_output, K, N, subN, subK);
#endif
    note("\n");
    FAIL_IF_ASKED;
    return SUCC;
}
#endif
