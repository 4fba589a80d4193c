// SPDX-License-Identifier: Apache-2.0
// Figures drawn into a folder of their own (plot_fixture.h).
#include "tests/unit/trainer/draw/plot_fixture.h"

#include "trainer/draw/plots.h"

enum { NEAR = 5 };

char plot_folder[256];
png_pixels plot_drawn;

int plot_set_up(void **state) {
    (void)state;
    test_folder_make(plot_folder);
    return 0;
}

int plot_tear_down(void **state) {
    (void)state;
    png_pixels_release(&plot_drawn);
    test_folder_remove(plot_folder);
    return 0;
}

void plot_needs_cairo(void) {
    if (!sr_plots_available(NULL))
        test_skip("built without cairo");
}

static void assert_svg(const char *name) {
    char path[300];
    void *text;
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/%s.svg", plot_folder, name);
    assert_ok(sr_file_read(path, 1 << 24, &text, &bytes));
    assert_non_null(strstr(text, "<svg"));
    assert_non_null(strstr(text, "</svg>"));
    sr_free(text);
}

void plot_draw(const sr_figure *figure, const char *name) {
    char path[300];
    (void)snprintf(path, sizeof path, "%s/%s.png", plot_folder, name);
    assert_ok(sr_figure_write(figure, plot_folder, name));
    assert_svg(name);
    png_pixels_read(&plot_drawn, path);
    assert_int_equal(plot_drawn.width, figure->width);
    assert_int_equal(plot_drawn.height, figure->height);
}

int plot_count(uint32_t color) {
    return png_pixels_count(&plot_drawn, color, NEAR, 0, 0, plot_drawn.width, plot_drawn.height);
}
