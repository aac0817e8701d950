"""What every figure shares: styles that can be told apart, an axis of traces, a PNG."""

from pets.report.style import PALETTE, blank, colour_of, places_of, save, style_of, trace_axis


def test_no_two_lines_of_a_plot_look_alike():
    styles = [tuple(style_of(place).values()) for place in range(3 * len(PALETTE))]
    assert len(set(styles)) == len(styles)


def test_uniform_and_okg_look_the_same_in_every_figure():
    alone, many = places_of(["okg"]), places_of(["asc", "okg", "esc", "uniform"])
    assert alone["okg"] == many["okg"] and len(set(many.values())) == 4
    assert style_of(many["okg"])["color"] == colour_of("okg") != colour_of("uniform")


def test_an_axis_of_traces_doubles_from_tick_to_tick():
    axes = blank(4, 3).subplots()
    trace_axis(axes, 1, 70)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "4", "8", "16", "32", "64"]


def test_a_figure_is_saved_as_png(tmp_path):
    assert save(blank(2, 2), tmp_path / "empty.png").read_bytes().startswith(b"\x89PNG")
