/* Parameters, opening and closing, cache, template, and what is refused. */
#include "library.h"

#include <stdio.h>
#include <string.h>

#ifndef OPENRKNN_VERSION
#define OPENRKNN_VERSION "unknown"
#endif
__attribute__((used)) static const char version_line[] = "librkllmrt version: 1.3.0 (openrknn " OPENRKNN_VERSION ")";

/* The struct of 1.3 is the smallest: an older program has room for it. For such a program what follows `mirostat_eta` is
   written where it looks for it, if OPENRKNN_RKLLM_ABI names its version; all of it is zero, whatever the version. */
EXPORT RKLLMParam rkllm_createDefaultParam(void) {
    RKLLMParam param;
    memset(&param, 0, sizeof param);
    param.max_context_len = 512;
    param.max_new_tokens = -1; /* until the context is full */
    param.top_k = 40;
    param.top_p = 0.9f;
    param.temperature = 0.8f;
    param.repeat_penalty = 1.1f;
    param.mirostat_tau = 5.0f;
    param.mirostat_eta = 0.1f;
    if (version_named() == VERSION_1_1) { /* no n_keep: all that follows lies 4 bytes earlier */
        memmove(&param.n_keep, &param.top_p, offsetof(RKLLMParam, skip_special_token) - offsetof(RKLLMParam, top_p));
        memset(&param.mirostat_eta, 0, sizeof param.mirostat_eta);
    }
    return param;
}

static void add_param(struct exchange *exchange, const RKLLMParam *param) {
    exchange_text(exchange, "model", param->model_path);
    exchange_number(exchange, "context", param->max_context_len);
    exchange_number(exchange, "keep", param->n_keep);
    exchange_number(exchange, "skip_special", param->skip_special_token);
    exchange_number(exchange, "ignore_eos", param->ignore_eos_token);
}

static int read_callback(struct exchange *exchange, struct handle *made, const void *callback) {
    RKLLMCallback given = {0};
    made->version = version_named();
    if (made->version == VERSION_UNKNOWN) made->version = version_of_callback(callback);
    if (made->version != VERSION_1_3) {
        memcpy(&made->callback, &callback, sizeof callback);
        return 0;
    }
    if (copy_in(&given, callback, sizeof given) != 0)
        return exchange_fail(exchange, "callback is no address of an RKLLMCallback");
    if (given.tokenizer_callback || given.embed_callback)
        say(LEVEL_WARNING, "rkllm_init", "tokenizer_callback and embed_callback are not called: the file has both tables");
    made->callback = given.result_callback;
    made->userdata = given.result_userdata;
    return 0;
}

EXPORT int rkllm_init(LLMHandle *handle, RKLLMParam *param, RKLLMCallback *callback) {
    struct exchange exchange;
    struct handle made = {0}, *added = NULL;
    exchange_begin(&exchange, "rkllm_init", OP_LLM_INIT);
    if (!callback) exchange_fail(&exchange, "callback is NULL: results have no receiver");
    else read_callback(&exchange, &made, callback);
    if (!exchange.failed && read_param(made.version, param, &made.param) != 0)
        exchange_fail(&exchange, "param is no address of an RKLLMParam");
    if (!exchange.failed && !made.callback) exchange_fail(&exchange, "result_callback is NULL: results have no receiver");
    if (!exchange.failed && made.param.max_context_len < 1)
        exchange_fail(&exchange, "max_context_len is %d; it is 1 or more", made.param.max_context_len);
    if (!exchange.failed && made.param.extend_param.n_batch > 1)
        exchange_fail(&exchange, "n_batch %d is not supported; open the model several times", made.param.extend_param.n_batch);
    if (!exchange.failed && made.param.extend_param.use_cross_attn)
        exchange_fail(&exchange, "use_cross_attn is not supported: only models without an encoder can be opened");
    add_param(&exchange, &made.param);
    if (exchange_send(&exchange, 0) == 0) {
        made.id = exchange.message.reply.value;
        made.link = exchange.channel->link;
        added = handle_add(&made);
        LLMHandle number = added ? (LLMHandle)added->number : NULL;
        if (!added) exchange_fail(&exchange, "no memory");
        else if (copy_out(handle, &number, sizeof number) != 0) {
            exchange_fail(&exchange, "handle is no address of an LLMHandle");
            struct handle *found = handle_get("rkllm_init", number);
            if (found) handle_close(found), handle_put(found);
        }
        say(LEVEL_INFO, "rkllm_init", "structs of rkllm.h %s%s", version_text(made.version),
            version_named() == VERSION_UNKNOWN ? ", told by the callback; OPENRKNN_RKLLM_ABI overrides" : "");
    }
    return exchange_end(&exchange);
}

/* ---------------------------------------------------------------- requests on a model */

static int simple(const char *function, LLMHandle number, enum operation operation, int64_t a, int64_t b, int64_t c,
                  uint64_t *value) {
    struct exchange exchange;
    struct handle *handle = handle_get(function, number);
    if (!handle) return -1;
    exchange_begin(&exchange, function, operation);
    exchange_on(&exchange, handle);
    exchange.request.a = a, exchange.request.b = b, exchange.request.c = c;
    if (exchange_send(&exchange, handle->link) == 0 && value) *value = exchange.message.reply.value;
    handle_put(handle);
    return exchange_end(&exchange);
}

EXPORT int rkllm_destroy(LLMHandle number) {
    struct exchange exchange;
    struct handle *handle = handle_get("rkllm_destroy", number);
    if (!handle) return -1;
    if (handle_is_running(handle)) simple("rkllm_destroy", number, OP_LLM_STOP, 0, 0, 0, NULL);
    handle_close(handle);
    exchange_begin(&exchange, "rkllm_destroy", OP_LLM_DESTROY);
    exchange_on(&exchange, handle);
    exchange_send(&exchange, handle->link);
    handle_put(handle);
    return exchange_end(&exchange);
}

EXPORT int rkllm_abort(LLMHandle number) { return simple("rkllm_abort", number, OP_LLM_STOP, 0, 0, 0, NULL); }

EXPORT int rkllm_is_running(LLMHandle number) {
    struct handle *handle = handle_get("rkllm_is_running", number);
    if (!handle) return -1;
    int result = handle_is_running(handle);
    handle_put(handle);
    return result;
}

EXPORT int rkllm_clear_kv_cache(LLMHandle number, int keep_system_prompt, int *start_pos, int *end_pos) {
    struct handle *handle = handle_get("rkllm_clear_kv_cache", number);
    if (!handle) return -1;
    /* Up to 1.2.0 there are two arguments: what lies in the registers of the others means nothing. Before the first
       input 1.2.0 cannot be told from 1.2, and there is no range to choose. */
    int is_settled = __atomic_load_n(&handle->is_settled, __ATOMIC_ACQUIRE) || version_named() != VERSION_UNKNOWN;
    enum version version = __atomic_load_n(&handle->version, __ATOMIC_RELAXED);
    int has_four = version == VERSION_1_3 || (version == VERSION_1_2 && is_settled);
    int first = -1, end = -1, has_range = has_four && start_pos && end_pos;
    handle_put(handle);
    if (has_range && (copy_in(&first, start_pos, sizeof first) != 0 || copy_in(&end, end_pos, sizeof end) != 0)) {
        say(LEVEL_ERROR, "rkllm_clear_kv_cache", "start_pos and end_pos must point at a number each, or be NULL");
        return -1;
    }
    if (first >= end) first = end = -1;
    return simple("rkllm_clear_kv_cache", number, OP_LLM_CLEAR, keep_system_prompt, first, end, NULL);
}

EXPORT int rkllm_get_kv_cache_size(LLMHandle number, int *cache_sizes) {
    uint64_t length = 0;
    if (simple("rkllm_get_kv_cache_size", number, OP_LLM_LENGTH, 0, 0, 0, &length) != 0) return -1;
    int size = (int)length;
    if (copy_out(cache_sizes, &size, sizeof size) == 0) return 0;
    say(LEVEL_ERROR, "rkllm_get_kv_cache_size", "cache_sizes is no address of a number");
    return -1;
}

static int texts(const char *function, LLMHandle number, enum operation operation, const char *const *names,
                 const char *const *values, int count) {
    struct exchange exchange;
    struct handle *handle = handle_get(function, number);
    if (!handle) return -1;
    exchange_begin(&exchange, function, operation);
    exchange_on(&exchange, handle);
    for (int index = 0; index < count; index++) exchange_text(&exchange, names[index], values[index]);
    exchange_send(&exchange, handle->link);
    handle_put(handle);
    return exchange_end(&exchange);
}

EXPORT int rkllm_set_chat_template(LLMHandle number, const char *system_prompt, const char *prompt_prefix,
                                   const char *prompt_postfix) {
    return texts("rkllm_set_chat_template", number, OP_LLM_TEMPLATE,
                 (const char *const[]){"system", "prefix", "postfix"},
                 (const char *const[]){system_prompt, prompt_prefix, prompt_postfix}, 3);
}

EXPORT int rkllm_set_function_tools(LLMHandle number, const char *system_prompt, const char *tools,
                                    const char *tool_response_str) {
    return texts("rkllm_set_function_tools", number, OP_LLM_TOOLS, (const char *const[]){"system", "tools", "response"},
                 (const char *const[]){system_prompt, tools, tool_response_str}, 3);
}

EXPORT int rkllm_load_prompt_cache(LLMHandle number, const char *prompt_cache_path) {
    return texts("rkllm_load_prompt_cache", number, OP_LLM_LOAD_CACHE, (const char *const[]){"path"},
                 (const char *const[]){prompt_cache_path}, 1);
}

EXPORT int rkllm_release_prompt_cache(LLMHandle number) {
    return simple("rkllm_release_prompt_cache", number, OP_LLM_CLEAR, 0, -1, -1, NULL);
}

/* ---------------------------------------------------------------- refused */

static int refused(const char *function, LLMHandle number, const char *reason) {
    struct handle *handle = handle_get(function, number);
    if (!handle) return -1;
    handle_put(handle);
    say(LEVEL_ERROR, function, "%s", reason);
    return -1;
}

EXPORT int rkllm_load_lora(LLMHandle number, RKLLMLoraAdapter *lora_adapter) {
    (void)lora_adapter;
    return refused("rkllm_load_lora", number, "adapters are not supported; merge the adapter into the model's weights");
}

EXPORT int rkllm_set_cross_attn_params(LLMHandle number, RKLLMCrossAttnParam *cross_attn_params) {
    (void)cross_attn_params;
    return refused("rkllm_set_cross_attn_params", number, "models with an encoder are not supported");
}
