/* Which version of rkllm.h a program was compiled with. All have the same function names, so nothing in the program says
   it: OPENRKNN_RKLLM_ABI does (1.1, 1.2.0, 1.2, 1.3), or what the program passes shows it:

   - the third argument of rkllm_init is a function up to 1.2.3 and a struct since 1.3.0;
   - RKLLMInput begins with the type up to 1.2.0 and with a pointer and the type since 1.2.1.

   1.1 has to be named: its RKLLMParam cannot be told from that of 1.2. */
#include "library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int32_t base_domain_id;
    uint8_t reserved[112];
} extend_1_1;

typedef struct {
    const char *model_path;
    int32_t max_context_len, max_new_tokens, top_k;
    float top_p, temperature, repeat_penalty, frequency_penalty, presence_penalty;
    int32_t mirostat;
    float mirostat_tau, mirostat_eta;
    bool skip_special_token, is_async;
    const char *img_start, *img_end, *img_content;
    extend_1_1 extend_param;
} param_1_1;

typedef struct {
    const char *model_path;
    int32_t max_context_len, max_new_tokens, top_k, n_keep;
    float top_p, temperature, repeat_penalty, frequency_penalty, presence_penalty;
    int32_t mirostat;
    float mirostat_tau, mirostat_eta;
    bool skip_special_token, is_async;
    const char *img_start, *img_end, *img_content;
    RKLLMExtendParam extend_param;
} param_1_2;

typedef struct {
    RKLLMInputType input_type;
    union {
        const char *prompt_input;
        RKLLMTokenInput token_input;
    };
} input_1_2_0;

typedef struct {
    RKLLMInferMode mode;
    RKLLMLoraParam *lora_params;
    RKLLMPromptCacheParam *prompt_cache_params;
    int keep_history; /* since 1.2 */
} infer_1_2;

#if UINTPTR_MAX > 0xffffffff
_Static_assert(sizeof(RKLLMParam) == 184 && offsetof(RKLLMParam, extend_param) == 60, "RKLLMParam of 1.3");
_Static_assert(sizeof(param_1_2) == 208 && offsetof(param_1_2, extend_param) == 88, "RKLLMParam of 1.2");
_Static_assert(sizeof(param_1_1) == 200, "RKLLMParam of 1.1");
_Static_assert(sizeof(RKLLMInput) == 160 && sizeof(RKLLMMultiModalInput) == 144, "RKLLMInput of 1.3");
_Static_assert(sizeof(RKLLMInferParam) == 40 && sizeof(RKLLMResult) == 72 && sizeof(RKLLMCallback) == 48, "1.3");
#endif

/* ---------------------------------------------------------------- by name */

static const struct { const char *name; enum version version; } names[] = {
    {"1.1", VERSION_1_1}, {"1.2.0", VERSION_1_2_0}, {"1.2", VERSION_1_2}, {"1.3", VERSION_1_3}};
enum { NAMES = sizeof names / sizeof *names };

static int is_version(const char *text, const char *name) {
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && (text[length] == 0 || text[length] == '.');
}

enum version version_named(void) {
    const char *text = getenv("OPENRKNN_RKLLM_ABI");
    if (!text || !*text) return VERSION_UNKNOWN;
    for (int index = 0; index < NAMES; index++)
        if (is_version(text, names[index].name)) return names[index].version;
    return VERSION_UNKNOWN;
}

const char *version_problem(void) {
    const char *text = getenv("OPENRKNN_RKLLM_ABI");
    return text && *text && version_named() == VERSION_UNKNOWN
               ? "OPENRKNN_RKLLM_ABI is not a version of rkllm.h; there are 1.1, 1.2.0, 1.2 and 1.3" : NULL;
}

const char *version_text(enum version version) {
    for (int index = 0; index < NAMES; index++)
        if (names[index].version == version) return names[index].name;
    return "unknown";
}

/* ---------------------------------------------------------------- by what is passed */

static int is_executable(const void *address) {
    unsigned long long begin, end, wanted = (uintptr_t)address;
    char line[512], rights[8];
    int found = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) return 0;
    while (!found && fgets(line, sizeof line, maps))
        if (sscanf(line, "%llx-%llx %7s", &begin, &end, rights) == 3 && wanted >= begin && wanted < end)
            found = rights[2] == 'x' ? 1 : -1;
    fclose(maps);
    return found > 0;
}

enum version version_of_callback(const void *callback) { return is_executable(callback) ? VERSION_1_2 : VERSION_1_3; }

enum version version_of_input(enum version version, const void *input) {
    uint64_t words[2];
    if (version != VERSION_1_2 || version_named() != VERSION_UNKNOWN || sizeof(void *) < 8) return version;
    if (copy_in(words, input, sizeof words) != 0) return version;
    /* A pointer to the role, or none, and then a flag and the type: 1.2.1. The type and then a pointer: 1.2.0. Between
       the type and the pointer are four bytes that are never set (the vendor's demo has the struct on its stack). */
    if ((uint32_t)words[0] > RKLLM_INPUT_MULTIMODAL) return version;
    int is_flag_and_type = (words[1] & 0xff) <= 1 && words[1] >> 32 <= RKLLM_INPUT_MULTIMODAL;
    return (uint32_t)words[0] == 0 && is_flag_and_type ? version : VERSION_1_2_0;
}

/* ---------------------------------------------------------------- reading */

#define COMMON(from)                                                                                                   \
    do {                                                                                                               \
        param->model_path = (from).model_path;                                                                         \
        param->max_context_len = (from).max_context_len;                                                               \
        param->max_new_tokens = (from).max_new_tokens;                                                                 \
        param->top_k = (from).top_k;                                                                                   \
        param->top_p = (from).top_p;                                                                                   \
        param->temperature = (from).temperature;                                                                       \
        param->repeat_penalty = (from).repeat_penalty;                                                                 \
        param->frequency_penalty = (from).frequency_penalty;                                                           \
        param->presence_penalty = (from).presence_penalty;                                                             \
        param->mirostat = (from).mirostat;                                                                             \
        param->mirostat_tau = (from).mirostat_tau;                                                                     \
        param->mirostat_eta = (from).mirostat_eta;                                                                     \
        param->skip_special_token = (from).skip_special_token;                                                         \
        param->is_async = (from).is_async;                                                                             \
    } while (0)

int read_param(enum version version, const void *user, RKLLMParam *param) {
    memset(param, 0, sizeof *param);
    if (version == VERSION_1_1) {
        param_1_1 given;
        if (copy_in(&given, user, sizeof given) != 0) return -1;
        COMMON(given);
        param->extend_param.base_domain_id = given.extend_param.base_domain_id;
    } else if (version != VERSION_1_3) {
        param_1_2 given;
        if (copy_in(&given, user, sizeof given) != 0) return -1;
        COMMON(given);
        param->n_keep = given.n_keep;
        param->extend_param = given.extend_param;
    } else if (copy_in(param, user, sizeof *param) != 0) {
        return -1;
    }
    return 0;
}

int read_input(enum version version, const void *user, RKLLMInput *input) {
    input_1_2_0 given;
    memset(input, 0, sizeof *input);
    if (version == VERSION_1_1 || version == VERSION_1_2_0) {
        if (copy_in(&given, user, sizeof given) != 0) return -1;
        input->input_type = given.input_type;
        input->token_input = given.token_input;
        return 0;
    }
    /* What follows a pointer and a size belongs to pictures, which are refused. */
    return copy_in(input, user, offsetof(RKLLMInput, token_input) + sizeof input->token_input);
}

int read_infer(enum version version, const void *user, RKLLMInferParam *infer) {
    infer_1_2 given;
    memset(infer, 0, sizeof *infer);
    if (!user) return 0;
    if (version == VERSION_1_3) return copy_in(infer, user, sizeof *infer);
    size_t size = version == VERSION_1_1 ? offsetof(infer_1_2, keep_history) : sizeof given;
    memset(&given, 0, sizeof given);
    if (copy_in(&given, user, size) != 0) return -1;
    infer->mode = given.mode;
    infer->lora_params = given.lora_params;
    infer->prompt_cache_params = given.prompt_cache_params;
    infer->keep_history = given.keep_history;
    return 0;
}
