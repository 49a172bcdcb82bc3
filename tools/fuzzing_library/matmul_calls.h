/* Calls of the functions for matrix products. */

static void call_matmul_create(void) {
    rknn_matmul_info info = matmul_info();
    rknn_matmul_io_attr io[3];
    rknn_matmul_shape shapes[3];
    for (int i = 0; i < 3; i++) shapes[i] = (rknn_matmul_shape){1 + (int)below(32), info.K, info.N};
    rknn_context made = 0;
    int code, slot = (int)below(POOL);
    void *given = handed(&info, sizeof info);
    if (chance(70))
        code = checked(MATMUL_CREATE, rknn_matmul_create(chance(97) ? &made : wild(), given, chance(95) ? io : wild()));
    else
        code = checked(MATMUL_CREATE_DYNAMIC_SHAPE,
                       rknn_matmul_create_dynamic_shape(&made, given, chance(90) ? 1 + (int)below(3) : (int)number(),
                                                        handed(shapes, sizeof shapes), chance(95) ? io : wild()));
    if (!code && made) {
        if (matmuls[slot]) checked(MATMUL_DESTROY, rknn_matmul_destroy(matmuls[slot]));
        matmuls[slot] = made;
        matrices[slot] = io[0];
    }
}

/* A product as a program would make it: memory for all three, then runs. */
static void call_product(void) {
    int slot = (int)below(POOL);
    rknn_matmul_tensor_attr *attrs[3] = {&matrices[slot].A, &matrices[slot].B, &matrices[slot].C};
    rknn_tensor_mem *made[3] = {NULL};
    if (!matmuls[slot]) return;
    for (int i = 0; i < 3; i++) {
        counts[CREATE_MEM]++;
        made[i] = rknn_create_mem(matmuls[slot], attrs[i]->size);
        if (made[i]) checked(MATMUL_SET_IO_MEM, rknn_matmul_set_io_mem(matmuls[slot], made[i], attrs[i]));
    }
    for (uint32_t runs = below(3); runs; runs--) checked(MATMUL_RUN, rknn_matmul_run(matmuls[slot]));
    if (chance(30)) checked(DESTROY_MEM, rknn_destroy_mem(matmuls[slot], made[0])), made[0] = NULL; /* still bound */
    if (chance(30)) checked(MATMUL_RUN, rknn_matmul_run(matmuls[slot]));
    for (int i = 0; i < 3; i++)
        if (made[i]) checked(DESTROY_MEM, rknn_destroy_mem(matmuls[slot], made[i]));
}

static void call_matmul(void) {
    rknn_matmul_tensor_attr attr;
    rknn_matmul_shape shape = {1 + (int)below(32), 32, 32};
    float scales[64];
    int32_t zeros[64];
    rknn_quant_params params;
    scribble(&attr, sizeof attr);
    memset(&params, 0, sizeof params);
    for (int i = 0; i < 64; i++) scales[i] = 0.5f, zeros[i] = 1;
    strcpy(params.name, (const char *[]){"A", "B", "C", "x"}[below(4)]);
    params.scale = chance(90) ? scales : wild();
    params.scale_len = chance(80) ? 1 << below(7) : (int32_t)number();
    params.zp = chance(90) ? zeros : wild();
    params.zp_len = chance(80) ? 1 << below(7) : (int32_t)number();
    if (params.scale == scales && (params.scale_len > 64 || params.scale_len < 0)) params.scale = wild();
    if (params.zp == zeros && (params.zp_len > 64 || params.zp_len < 0)) params.zp = wild();
    strcpy(attr.name, (const char *[]){"A", "B", "C", "x"}[below(4)]);
    switch (below(8)) {
    case 0:
        checked(MATMUL_SET_CORE_MASK,
                rknn_matmul_set_core_mask(matmul(), (rknn_core_mask)(chance(80) ? below(8) : number())));
        break;
    case 1:
        checked(MATMUL_SET_QUANT_PARAMS, rknn_matmul_set_quant_params(matmul(), chance(95) ? &params : wild()));
        break;
    case 2:
        checked(MATMUL_GET_QUANT_PARAMS,
                rknn_matmul_get_quant_params(matmul(), chance(95) ? &params : wild(), chance(90) ? scales : wild()));
        break;
    case 3:
        checked(MATMUL_SET_DYNAMIC_SHAPE, rknn_matmul_set_dynamic_shape(matmul(), chance(90) ? &shape : wild()));
        break;
    case 4: checked(MATMUL_RUN, rknn_matmul_run(matmul())); break;
    case 5: {
        rknn_context which = matmul();
        if (checked(MATMUL_DESTROY, rknn_matmul_destroy(which))) break;
        for (int i = 0; i < POOL; i++)
            if (matmuls[i] == which) matmuls[i] = 0;
        break;
    }
    case 6: {
        rknn_matmul_info info = matmul_info();
        int k = chance(90) ? info.K : (int)number(), n = chance(90) ? info.N : (int)number();
        checked(B_NORMAL_LAYOUT_TO_NATIVE_LAYOUT,
                rknn_B_normal_layout_to_native_layout(chance(90) ? room : wild(), chance(90) ? room + ROOM / 2 : wild(),
                                                      k, n, handed(&info, sizeof info)));
        break;
    }
    default: checked(MATMUL_SET_IO_MEM, rknn_matmul_set_io_mem(matmul(), memory(), chance(95) ? &attr : wild())); break;
    }
}
