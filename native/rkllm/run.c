/* rkllm_run and rkllm_run_async: the engine generates, and each token is one call of the program's function. */
#include "library.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { CALLBACK_PAUSES = 1, MOST_INPUT = 1 << 30 };

struct run {
    struct handle *handle;
    void *userdata;
};

/* ---------------------------------------------------------------- what to run on */

static int add_input(struct exchange *exchange, const RKLLMInput *input) {
    const void *user = NULL;
    size_t size = 0;
    switch (input->input_type) {
        case RKLLM_INPUT_PROMPT:
            if (!input->prompt_input) return exchange_fail(exchange, "prompt_input is NULL");
            exchange_text(exchange, "prompt", input->prompt_input);
            return 0;
        case RKLLM_INPUT_TOKEN:
            user = input->token_input.input_ids, size = input->token_input.n_tokens;
            if (size > MOST_INPUT / sizeof(int32_t)) return exchange_fail(exchange, "%zu tokens are too many", size);
            size *= sizeof(int32_t);
            break;
        case RKLLM_INPUT_EMBED:
            return exchange_fail(exchange, "RKLLM_INPUT_EMBED is not supported; pass a prompt or tokens");
        case RKLLM_INPUT_MULTIMODAL:
            return exchange_fail(exchange, "RKLLM_INPUT_MULTIMODAL is not supported: only text models can be opened");
        default: return exchange_fail(exchange, "input type %d is not known; was the program compiled with another version "
                                      "of rkllm.h? OPENRKNN_RKLLM_ABI names it (1.1, 1.2.0, 1.2, 1.3)", input->input_type);
    }
    exchange->descriptor = shared_file("openrknn-tokens");
    if (exchange->descriptor < 0) return exchange_fail(exchange, "no memory for the input");
    int problem = copy_to_file(exchange->descriptor, 0, user, size);
    if (problem == EFAULT) return exchange_fail(exchange, "input_ids is no address of %zu bytes", size);
    if (problem) return exchange_fail(exchange, "no memory for the input: %s", strerror(problem));
    exchange->request.b = (int64_t)size;
    return 0;
}

static void add_sampling(struct exchange *exchange, const RKLLMSamplingParam *sampling) {
    exchange_number(exchange, "top_k", sampling->top_k);
    exchange_number(exchange, "top_p", sampling->top_p);
    exchange_number(exchange, "temperature", sampling->temperature);
    exchange_number(exchange, "repeat_penalty", sampling->repeat_penalty);
    exchange_number(exchange, "frequency_penalty", sampling->frequency_penalty);
    exchange_number(exchange, "presence_penalty", sampling->presence_penalty);
    exchange_number(exchange, "mirostat", sampling->mirostat);
}

static void add_infer(struct exchange *exchange, const RKLLMParam *param, const RKLLMInferParam *infer) {
    RKLLMSamplingParam sampling = {param->top_k, param->top_p, param->temperature, param->repeat_penalty,
                                   param->frequency_penalty, param->presence_penalty, param->mirostat,
                                   param->mirostat_tau, param->mirostat_eta};
    RKLLMPromptCacheParam cache = {0};
    if (infer->lora_params) {
        exchange_fail(exchange, "lora_params: adapters are not supported");
        return;
    }
    if (infer->sampling_params && copy_in(&sampling, infer->sampling_params, sizeof sampling) != 0) {
        exchange_fail(exchange, "sampling_params is no address of an RKLLMSamplingParam");
        return;
    }
    if (infer->prompt_cache_params && copy_in(&cache, infer->prompt_cache_params, sizeof cache) != 0) {
        exchange_fail(exchange, "prompt_cache_params is no address of an RKLLMPromptCacheParam");
        return;
    }
    add_sampling(exchange, &sampling);
    exchange_number(exchange, "mode", infer->mode);
    exchange_number(exchange, "keep_history", infer->keep_history);
    exchange_number(exchange, "max_new_tokens", infer->max_new_tokens > 0 ? infer->max_new_tokens : param->max_new_tokens);
    if (cache.save_prompt_cache) exchange_text(exchange, "save_cache", cache.prompt_cache_path);
}

static int start(struct handle *handle, const char *function, const void *user_input, const void *user_infer) {
    struct exchange exchange;
    RKLLMInput input;
    RKLLMInferParam infer;
    exchange_begin(&exchange, function, OP_LLM_RUN);
    exchange_on(&exchange, handle);
    enum version version = version_of_input(handle->version, user_input);
    __atomic_store_n(&handle->version, version, __ATOMIC_RELAXED);
    __atomic_store_n(&handle->is_settled, 1, __ATOMIC_RELEASE);
    if (read_input(version, user_input, &input) != 0) exchange_fail(&exchange, "rkllm_input is no address of an RKLLMInput");
    else if (read_infer(version, user_infer, &infer) != 0)
        exchange_fail(&exchange, "rkllm_infer_params is no address of an RKLLMInferParam");
    else {
        exchange_text(&exchange, "role", input.role);
        exchange_number(&exchange, "thinking", input.enable_thinking);
        exchange.request.a = input.input_type;
        add_infer(&exchange, &handle->param, &infer);
        add_input(&exchange, &input);
    }
    exchange_send(&exchange, handle->link);
    return exchange_end(&exchange);
}

/* ---------------------------------------------------------------- what comes of it */

static int call_program(const struct run *run, RKLLMResult *result, LLMCallState state) {
    const struct handle *handle = run->handle;
    void *userdata = run->userdata ? run->userdata : handle->userdata;
    if (handle->version == VERSION_1_1 || handle->version == VERSION_1_2_0) {
        ((void (*)(RKLLMResult *, void *, LLMCallState))(void *)handle->callback)(result, userdata, state);
        return 0; /* the function returns nothing */
    }
    return handle->callback(result, userdata, state);
}

/* Rows of floats in shared memory; they are valid during the callback. */
static void *map_rows(struct message *message, RKLLMResult *result, size_t *bytes) {
    int64_t rows = message->reply.c, columns = message->reply.d, mode = (int64_t)message->reply.value;
    int file = rows > 0 && columns > 0 ? message_take(message) : -1;
    if (file < 0 || rows > MOST_INPUT / 4 / columns) return NULL;
    *bytes = (size_t)(rows * columns) * sizeof(float);
    void *mapped = mmap(NULL, *bytes, PROT_READ, MAP_SHARED, file, 0);
    close_quietly(file);
    if (mapped == MAP_FAILED) return NULL;
    if (mode == RKLLM_INFER_GET_LOGITS)
        result->logits = (RKLLMResultLogits){mapped, (int)columns, (int)rows};
    else
        result->last_hidden_layer = (RKLLMResultLastHiddenLayer){mapped, (int)columns, (int)rows};
    return mapped;
}

/* One event of the engine. Returns 1 while more may come. */
static int next(const struct run *run) {
    struct exchange exchange;
    struct handle *handle = run->handle;
    RKLLMResult result;
    char *text = NULL;
    size_t bytes = 0;
    memset(&result, 0, sizeof result);
    result.text = "";
    exchange_begin(&exchange, "rkllm_run", OP_LLM_NEXT);
    exchange_on(&exchange, handle);
    if (exchange_send(&exchange, handle->link) != 0) {
        exchange_end(&exchange);
        if (!handle_is_closed(handle)) call_program(run, &result, RKLLM_RUN_ERROR);
        return -1;
    }
    struct message *message = &exchange.message;
    LLMCallState state = (LLMCallState)message->reply.a;
    result.token_id = (int32_t)message->reply.b;
    if (state == RKLLM_RUN_FINISH && message->reply.payload_bytes == sizeof result.perf)
        memcpy(&result.perf, message->payload, sizeof result.perf);
    else if (message->reply.payload_bytes && (text = malloc((size_t)message->reply.payload_bytes + 1))) {
        memcpy(text, message->payload, message->reply.payload_bytes);
        text[message->reply.payload_bytes] = 0;
        result.text = text;
    }
    void *rows = map_rows(message, &result, &bytes);
    exchange_end(&exchange); /* the program's function may call the library */
    int returned = handle_is_closed(handle) ? 0 : call_program(run, &result, state);
    if (rows) munmap(rows, bytes);
    free(text);
    if (returned == CALLBACK_PAUSES && state != RKLLM_RUN_FINISH) {
        rkllm_abort((LLMHandle)handle->number);
        return 0;
    }
    return state != RKLLM_RUN_FINISH && state != RKLLM_RUN_ERROR;
}

static int run_all(const struct run *run) {
    int more;
    do more = next(run);
    while (more > 0);
    handle_end(run->handle);
    handle_put(run->handle);
    return more;
}

static void *run_thread(void *argument) {
    struct run run = *(struct run *)argument;
    free(argument);
    handle_runs_here(run.handle);
    run_all(&run);
    return NULL;
}

static int run_beside(const struct run *run) {
    pthread_t thread;
    struct run *copied = malloc(sizeof *copied);
    if (copied) {
        *copied = *run;
        if (pthread_create(&thread, NULL, run_thread, copied) == 0) return pthread_detach(thread);
        free(copied);
    }
    say(LEVEL_ERROR, "rkllm_run_async", "no thread");
    rkllm_abort((LLMHandle)run->handle->number);
    handle_end(run->handle);
    handle_put(run->handle);
    return -1;
}

static int run(const char *function, LLMHandle number, const void *input, const void *infer, void *userdata, int beside) {
    struct run started = {handle_get(function, number), userdata};
    if (!started.handle) return -1;
    if (handle_begin(started.handle) != 0) {
        say(LEVEL_ERROR, function, "a run of this model is under way; wait for RKLLM_RUN_FINISH, or call rkllm_abort");
        handle_put(started.handle);
        return -1;
    }
    if (start(started.handle, function, input, infer) != 0) {
        handle_end(started.handle);
        handle_put(started.handle);
        return -1;
    }
    return beside || started.handle->param.is_async ? run_beside(&started) : run_all(&started);
}

EXPORT int rkllm_run(LLMHandle handle, RKLLMInput *rkllm_input, RKLLMInferParam *rkllm_infer_params, void *userdata) {
    return run("rkllm_run", handle, rkllm_input, rkllm_infer_params, userdata, 0);
}

EXPORT int rkllm_run_async(LLMHandle handle, RKLLMInput *rkllm_input, RKLLMInferParam *rkllm_infer_params,
                           void *userdata) {
    return run("rkllm_run_async", handle, rkllm_input, rkllm_infer_params, userdata, 1);
}
