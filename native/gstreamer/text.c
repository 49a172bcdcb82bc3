/* Text with Pango: names of classes are in any language. */
#include <pango/pangocairo.h>

#include "overlay.h"

enum { MOST_KEPT = 512, WIDEST = 4096 };

struct line {
    struct coverage coverage;
    cairo_surface_t *surface;
};

struct text_store {
    GHashTable *lines;
    PangoContext *context;
};

static void line_free(gpointer pointer) {
    struct line *line = pointer;
    cairo_surface_destroy(line->surface);
    g_free(line);
}

struct text_store *text_store_new(void) {
    struct text_store *store = g_new0(struct text_store, 1);
    store->lines = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, line_free);
    PangoFontMap *map = pango_cairo_font_map_new();
    store->context = pango_font_map_create_context(map);
    g_object_unref(map);
    return store;
}

void text_store_free(struct text_store *store) {
    if (!store) return;
    g_hash_table_unref(store->lines);
    g_object_unref(store->context);
    g_free(store);
}

static struct line *render(PangoContext *context, const char *text, const char *font, gint pixels) {
    struct line *line = g_new0(struct line, 1);
    PangoLayout *layout = pango_layout_new(context);
    PangoFontDescription *description = pango_font_description_from_string(font);
    gint width, height;
    pango_font_description_set_absolute_size(description, pixels * PANGO_SCALE);
    pango_layout_set_font_description(layout, description);
    pango_layout_set_single_paragraph_mode(layout, TRUE);
    pango_layout_set_text(layout, text, -1);
    pango_layout_get_pixel_size(layout, &width, &height);
    line->surface = cairo_image_surface_create(CAIRO_FORMAT_A8, CLAMP(width, 1, WIDEST), CLAMP(height, 1, WIDEST));
    cairo_t *cairo = cairo_create(line->surface);
    pango_cairo_show_layout(cairo, layout);
    cairo_destroy(cairo);
    cairo_surface_flush(line->surface);
    line->coverage = (struct coverage){
        .data = cairo_image_surface_get_data(line->surface),
        .width = cairo_image_surface_get_width(line->surface),
        .height = cairo_image_surface_get_height(line->surface),
        .stride = cairo_image_surface_get_stride(line->surface),
        .opacity = 1.0,
    };
    pango_font_description_free(description);
    g_object_unref(layout);
    return line;
}

const struct coverage *text_render(struct text_store *store, const char *text, const char *font, gint pixels) {
    g_autofree char *key = g_strdup_printf("%d %s\n%s", pixels, font, text);
    struct line *line = g_hash_table_lookup(store->lines, key);
    if (!line) {
        if (g_hash_table_size(store->lines) >= MOST_KEPT) g_hash_table_remove_all(store->lines);
        line = render(store->context, text, font, pixels);
        g_hash_table_insert(store->lines, g_steal_pointer(&key), line);
    }
    return &line->coverage;
}
