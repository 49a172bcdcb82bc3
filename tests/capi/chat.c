/* A program with rkllm.h as it was in a version of the API (-DAPI=110, 120, 121 or 130): runs a prompt in all ways.
   Prints what its function was called with. Up to 1.2.0 structs are declared here as those versions had them. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if API == 130
#include "rkllm.h"
#else
typedef void *LLMHandle;
typedef enum { RKLLM_RUN_NORMAL, RKLLM_RUN_WAITING, RKLLM_RUN_FINISH, RKLLM_RUN_ERROR } LLMCallState;
typedef struct {
    int32_t base_domain_id;
#if API >= 120
    int8_t embed_flash, enabled_cpus_num;
    uint32_t enabled_cpus_mask;
    uint8_t reserved[106];
#else
    uint8_t reserved[112];
#endif
} RKLLMExtendParam;
typedef struct {
    const char *model_path;
    int32_t max_context_len, max_new_tokens, top_k;
#if API >= 120
    int32_t n_keep;
#endif
    float top_p, temperature, repeat_penalty, frequency_penalty, presence_penalty;
    int32_t mirostat;
    float mirostat_tau, mirostat_eta;
    bool skip_special_token, is_async;
    const char *img_start, *img_end, *img_content;
    RKLLMExtendParam extend_param;
} RKLLMParam;
typedef struct { int32_t *input_ids; size_t n_tokens; } RKLLMTokenInput;
typedef struct {
#if API >= 121
    const char *role;
    bool enable_thinking;
#endif
    int input_type;
    union { const char *prompt_input; RKLLMTokenInput token_input; char room[40]; };
} RKLLMInput;
enum { RKLLM_INPUT_PROMPT, RKLLM_INPUT_TOKEN, RKLLM_INPUT_EMBED };
enum { RKLLM_INFER_GENERATE, RKLLM_INFER_GET_LAST_HIDDEN_LAYER, RKLLM_INFER_GET_LOGITS };
typedef struct {
    int mode;
    void *lora_params, *prompt_cache_params;
#if API >= 120
    int keep_history;
#endif
} RKLLMInferParam;
typedef struct { const float *numbers; int width, rows; } rows_of_floats;
typedef struct {
    const char *text;
    int32_t token_id;
    rows_of_floats last_hidden_layer;
#if API >= 120
    rows_of_floats logits;
#endif
#if API >= 121
    struct { float prefill_time_ms; int prefill_tokens; float generate_time_ms; int generate_tokens; float memory_usage_mb; } perf;
#endif
} RKLLMResult;
#if API >= 121
typedef int (*LLMResultCallback)(RKLLMResult *result, void *userdata, LLMCallState state);
#else
typedef void (*LLMResultCallback)(RKLLMResult *result, void *userdata, LLMCallState state);
#endif
RKLLMParam rkllm_createDefaultParam(void);
int rkllm_init(LLMHandle *handle, RKLLMParam *param, LLMResultCallback callback);
int rkllm_run(LLMHandle handle, RKLLMInput *input, RKLLMInferParam *infer, void *userdata);
int rkllm_run_async(LLMHandle handle, RKLLMInput *input, RKLLMInferParam *infer, void *userdata);
int rkllm_abort(LLMHandle handle);
int rkllm_is_running(LLMHandle handle);
int rkllm_destroy(LLMHandle handle);
#if API <= 120
/* It has two arguments there. The others are what happens to be in their registers. */
int rkllm_clear_kv_cache(LLMHandle handle, int keep_system_prompt, uintptr_t junk, uintptr_t more_junk);
#endif
#endif

#define CHECK(condition) do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); exit(1); } } while (0)

struct heard {
    char text[4096];
    int tokens, finished, failed, pause_at;
    int generated;
    size_t width, rows;
    LLMHandle destroy;
};

static atomic_int is_over;

static int listen_to(RKLLMResult *result, void *userdata, LLMCallState state) {
    struct heard *heard = userdata;
    if (state == RKLLM_RUN_NORMAL || state == RKLLM_RUN_WAITING) {
        heard->tokens++;
        strncat(heard->text, result->text, sizeof heard->text - strlen(heard->text) - 1);
        if (heard->destroy) CHECK(rkllm_destroy(heard->destroy) == 0);
    }
#if API == 130
    if (result->logits.logits) heard->width = (size_t)result->logits.vocab_size, heard->rows = (size_t)result->logits.num_tokens;
    if (state == RKLLM_RUN_FINISH) heard->generated = result->perf.generate_tokens;
#endif
    if (state == RKLLM_RUN_FINISH) heard->finished++;
    if (state == RKLLM_RUN_ERROR) heard->failed++;
    if (state == RKLLM_RUN_FINISH || state == RKLLM_RUN_ERROR) atomic_store(&is_over, 1);
#if API >= 121
    return heard->pause_at && heard->tokens >= heard->pause_at ? 1 : 0;
#else
    return 1; /* the function returns nothing there: this is what happens to be in the register */
#endif
}

static RKLLMInput prompt(const char *text) {
    RKLLMInput input;
    /* The vendor's demo sets all bytes since 1.2.1, and before it the fields only. */
    memset(&input, API >= 121 ? 0 : 0xa5, sizeof input);
    input.input_type = RKLLM_INPUT_PROMPT;
    input.prompt_input = text;
#if API >= 121
    input.role = "user";
#endif
    return input;
}

static int open_model(LLMHandle *handle, RKLLMParam *param) {
#if API == 130
    RKLLMCallback callback = {0};
    callback.result_callback = listen_to;
    return rkllm_init(handle, param, &callback);
#else
    return rkllm_init(handle, param, (LLMResultCallback)(void (*)(void))listen_to);
#endif
}

static RKLLMParam param_for(const char *model) {
    RKLLMParam param = rkllm_createDefaultParam();
    CHECK(param.temperature > 0.79f && param.temperature < 0.81f && param.top_p > 0.89f && param.top_p < 0.91f);
    param.model_path = model;
    param.max_new_tokens = 8;
    param.max_context_len = 64;
    param.top_k = 1;
    param.repeat_penalty = 1.0f;
    return param;
}

int main(int count, char **words) {
    LLMHandle handle = NULL;
    RKLLMParam param = param_for(count > 1 ? words[1] : "");
    RKLLMInferParam infer;
    struct heard first = {0}, second = {0}, third = {0}, last = {0};
    memset(&infer, 0, sizeof infer);
    CHECK(open_model(&handle, &param) == 0);

#if API == 120
    CHECK(rkllm_clear_kv_cache(handle, 0, 16, 24) == 0);
#endif
    RKLLMInput input = prompt("a b c");
    CHECK(rkllm_run(handle, &input, &infer, &first) == 0);
    /* 8 tokens, and what was kept back until the end. */
    CHECK(first.finished == 1 && first.failed == 0 && first.tokens > 0 && first.tokens <= 9);
    CHECK(rkllm_is_running(handle) == 0);
#if API == 120
    CHECK(rkllm_clear_kv_cache(handle, 0, 16, 24) == 0);
#endif

    /* The same again, beside this thread. */
    atomic_store(&is_over, 0);
    CHECK(rkllm_run_async(handle, &input, &infer, &second) == 0);
    while (!atomic_load(&is_over) || rkllm_is_running(handle) == 1) sched_yield();
    CHECK(second.finished == 1 && strcmp(first.text, second.text) == 0);

    /* Wrong things are refused and leave the model usable. */
    CHECK(rkllm_run(handle, NULL, &infer, &third) == -1);
    CHECK(rkllm_run(handle, (RKLLMInput *)8, &infer, &third) == -1);
    CHECK(rkllm_run((LLMHandle)1, &input, &infer, &third) == -1);
    CHECK(rkllm_destroy((LLMHandle)0x7777) == -1);
    input.input_type = RKLLM_INPUT_EMBED;
    CHECK(rkllm_run(handle, &input, &infer, &third) == -1);
    input = prompt((const char *)16);
    CHECK(rkllm_run(handle, &input, &infer, &third) == -1);
    CHECK(third.tokens == 0 && third.finished == 0);

#if API >= 121
    struct heard paused = {.pause_at = 2};
    input = prompt("a b c");
    CHECK(rkllm_run(handle, &input, &infer, &paused) == 0);
    CHECK(paused.tokens == 2 && paused.finished == 0 && rkllm_is_running(handle) == 0);
#endif
#if API == 130
    int32_t ids[3] = {5, 6, 7};
    RKLLMInput tokens;
    memset(&tokens, 0, sizeof tokens);
    tokens.input_type = RKLLM_INPUT_TOKEN;
    tokens.token_input.input_ids = ids, tokens.token_input.n_tokens = 3;
    infer.mode = RKLLM_INFER_GET_LOGITS;
    CHECK(rkllm_run(handle, &tokens, &infer, &third) == 0);
    CHECK(third.rows == 3 && third.width > 8 && third.finished == 1);
    int size = 0;
    CHECK(rkllm_get_kv_cache_size(handle, &size) == 0 && size == 3);
    CHECK(rkllm_clear_kv_cache(handle, 0, NULL, NULL) == 0);
    CHECK(rkllm_get_kv_cache_size(handle, &size) == 0 && size == 0);
    infer.mode = RKLLM_INFER_GENERATE, infer.max_new_tokens = 3;
    struct heard few = {0};
    input = prompt("a b c");
    CHECK(rkllm_run(handle, &input, &infer, &few) == 0 && few.generated <= 3 && few.finished == 1);
    CHECK(rkllm_set_chat_template(handle, "s", "<", ">") == 0);
    CHECK(rkllm_load_lora(handle, NULL) == -1 && rkllm_set_cross_attn_params(handle, NULL) == -1);
    CHECK(rkllm_load_prompt_cache(handle, "nowhere") == -1);
    RKLLMPromptCacheParam cache = {1, count > 2 ? words[2] : "cache"};
    infer.prompt_cache_params = &cache;
    CHECK(rkllm_run(handle, &input, &infer, &few) == 0 && rkllm_load_prompt_cache(handle, cache.prompt_cache_path) == 0);
#endif
    /* A function that destroys the model that calls it. */
    memset(&infer, 0, sizeof infer);
    last.destroy = handle;
    input = prompt("a b c");
    rkllm_run(handle, &input, &infer, &last);
    CHECK(last.tokens == 1 && rkllm_is_running(handle) == -1);

    param.model_path = "/no/such/file.gguf";
    CHECK(open_model(&handle, &param) == -1);
    printf("%s\n", first.text);
    return 0;
}
